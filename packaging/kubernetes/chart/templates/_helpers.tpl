{{/* Name of all objects: that of the release. */}}
{{- define "weir.name" -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{/* Name of the Secret with the token of the admin port. */}}
{{- define "weir.secret" -}}
{{ .Values.existingSecret | default (include "weir.name" .) }}
{{- end }}

{{/* Security of each container. */}}
{{- define "weir.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: ["ALL"]
{{- end }}
