#!/usr/bin/env python3
"""Turns the webhook template of Volcano's Helm chart into plain YAML: webhooks.py TEMPLATE URL

The webhook server runs as a process, not as a pod, so each webhook calls a URL in place of a
service. The server itself adds its certificate authority to them.
"""

import re
import sys

template, url = sys.argv[1:]
with open(template) as file:
    text = file.read()
for optional in ("common_labels", "webhooks_namespace_selector_expressions"):
    block = r"\{\{- if \.Values\.custom\." + optional + r" \}\}.*?\{\{- end \}\}"
    text = re.sub(block, "", text, flags=re.S)
text = text.replace("{{ .Release.Namespace }}", "volcano-system")
text = text.replace("{{ .Release.Name }}", "volcano")
text = re.sub(r"\{\{.*?\}\}", "", text)
text = re.sub(
    r"      service:\n        name: .*\n        namespace: .*\n"
    r"        path: (.*)\n        port: 443\n",
    lambda match: f"      url: {url}{match[1]}\n",
    text,
)
print(re.sub(r"\n\s*\n", "\n", text))
