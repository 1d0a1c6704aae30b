#!/bin/bash
# Builds Kubernetes, Volcano, the DNS server and Helm from Go modules, and makes the two test images.
. "$(dirname "$0")/common.sh"

KUBERNETES=v1.30.2
PACK=$HERE/../../../deploy/image/pack.py
export GOMODCACHE=$KUBE_HOME/modcache GOCACHE=$KUBE_HOME/gocache
export CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS="-trimpath -buildvcs=false -mod=readonly"
# Without these, programs report v0.0.0-master.
version=k8s.io/component-base/version
flags="-s -w -X $version.gitVersion=$KUBERNETES -X $version.gitMajor=1 -X $version.gitMinor=30"
flags+=" -X k8s.io/client-go/pkg/version.gitVersion=$KUBERNETES"

build() { # MODULE NAME PACKAGE
  local begin=$SECONDS
  (cd "$HERE/$1" && go build -ldflags "$flags" -o "$KUBE_HOME/bin/$2" "$3")
  echo "$2: $((SECONDS - begin)) s"
}

mkdir -p "$KUBE_HOME/bin" "$KUBE_HOME/images" "$KUBE_HOME/volcano/crd"
for name in kube-apiserver kube-controller-manager kubectl kubelet kube-proxy; do
  build control-plane $name k8s.io/kubernetes/cmd/$name
done
for name in controller-manager scheduler webhook-manager; do
  build control-plane vc-$name volcano.sh/volcano/cmd/$name
done
build control-plane vcctl volcano.sh/volcano/cmd/cli
build dns minidns .
build helm helm helm.sh/helm/v3/cmd/helm

# What Volcano's Helm chart would install; its templates need Helm, so only the plain files and the webhooks are taken.
chart=$(cd "$HERE/control-plane" && go list -m -f '{{.Dir}}' volcano.sh/volcano)/installer/helm/chart/volcano
install -m 644 "$chart"/crd/bases/*.yaml "$chart"/charts/jobflow/crd/bases/*.yaml "$KUBE_HOME/volcano/crd"
install -m 644 "$chart/config/volcano-scheduler.conf" "$KUBE_HOME/volcano/scheduler.conf"
"$HERE/webhooks.py" "$chart/templates/webhooks.yaml" "https://$CONTROL_PLANE:8443" >"$KUBE_HOME/volcano/webhooks.yaml"

cd "$KUBE_HOME/images"
mkdir -p pause
gcc -Os -static -s -o pause/pause "$HERE/pause.c"
"$PACK" --entrypoint /pause pause.tar localhost/pause:test pause

[ -x busybox/bin/busybox ] || die "busybox is missing; run: cluster.sh install"
rm -rf root
mkdir -p root/{bin,etc,root}
install -d -m 1777 root/tmp
cp busybox/bin/busybox root/bin
for applet in $(busybox/bin/busybox --list); do ln -sf busybox "root/bin/$applet"; done
for library in $(ldd busybox/bin/busybox | grep -o '/[^ ]*'); do install -D "$library" "root$library"; done
echo 'root:x:0:0:root:/root:/bin/sh' >root/etc/passwd
echo 'root:x:0:' >root/etc/group
echo 'hosts: files dns' >root/etc/nsswitch.conf
"$PACK" busybox.tar localhost/busybox:test root
