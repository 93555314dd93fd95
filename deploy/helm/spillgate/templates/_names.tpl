{{- define "spillgate.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "spillgate.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "spillgate.labels" -}}
{{ include "spillgate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "spillgate.adminSecret" -}}
{{ .Values.admin.existingSecret | default (printf "%s-admin" (include "spillgate.name" .)) }}
{{- end }}

{{- /* The number behind the last colon of a listen address. */ -}}
{{- define "spillgate.proxyPort" -}}
{{ regexFind "[0-9]+$" (.Values.config.server.address | toString) }}
{{- end }}
{{- define "spillgate.adminPort" -}}
{{ regexFind "[0-9]+$" (.Values.config.admin.address | toString) }}
{{- end }}
