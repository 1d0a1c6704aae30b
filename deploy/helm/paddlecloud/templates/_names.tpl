{{- define "paddlecloud.labels" -}}
app.kubernetes.io/name: paddlecloud
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Where pods find the files: the volume of the values, or the claim of this chart. */}}
{{- define "paddlecloud.files" -}}
{{- .Values.files.volume | default (dict "claim" (dict "claim" (printf "%s-files" .Release.Name))) | toJson }}
{{- end }}

{{/* What the server may do with the jobs of a namespace. */}}
{{- define "paddlecloud.jobRules" -}}
- apiGroups: [""]
  resources: ["secrets"]
  verbs: ["get", "list", "watch", "create", "patch", "delete"]
{{- if .Values.volcano }}
- apiGroups: ["batch.volcano.sh"]
  resources: ["jobs"]
  verbs: ["get", "list", "watch", "create", "patch", "delete"]
- apiGroups: ["scheduling.volcano.sh"]
  resources: ["podgroups"]
  verbs: ["list", "watch"]
{{- else }}
- apiGroups: [""]
  resources: ["services"]
  verbs: ["get", "create"]
- apiGroups: ["apps"]
  resources: ["statefulsets"]
  verbs: ["get", "create", "delete"]
- apiGroups: ["batch"]
  resources: ["jobs"]
  verbs: ["get", "list", "watch", "create", "delete"]
{{- end }}
- apiGroups: [""]
  resources: ["pods"]
  verbs: ["get", "list", "watch", "deletecollection"]
- apiGroups: [""]
  resources: ["pods/log"]
  verbs: ["get"]
- apiGroups: [""]
  resources: ["events"]
  verbs: ["list", "watch"]
{{- end }}
