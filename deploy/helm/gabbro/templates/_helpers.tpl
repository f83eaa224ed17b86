{{- define "gabbro.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "gabbro.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "gabbro.labels" -}}
{{ include "gabbro.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "gabbro.claim" -}}
{{- if .Values.modelsVolume.existingClaim -}}
{{- .Values.modelsVolume.existingClaim -}}
{{- else if .Values.modelsVolume.size -}}
{{- include "gabbro.name" . -}}-models
{{- end -}}
{{- end -}}

{{- define "gabbro.arguments" -}}
{{- range .Values.models }}
- {{ . | quote }}
{{- end }}
- --port
- "11434"
{{- if .Values.keysSecret }}
- --keys
- /run/secrets/gabbro/keys
{{- else }}
- --no-auth
{{- end }}
{{- $name := include "gabbro.name" . }}
{{- $spaced := printf "%s.%s" $name .Release.Namespace }}
{{- range concat (list $name $spaced (printf "%s.svc" $spaced) (printf "%s.svc.cluster.local" $spaced)) .Values.allowedHosts }}
- --allowed-hosts
- {{ . | quote }}
{{- end }}
- --drain
- {{ .Values.drainSeconds | quote }}
{{- if gt (int .Values.gpu.count) 1 }}
- --devices
- all
- --split
- {{ .Values.gpu.split }}
{{- end }}
{{- range .Values.arguments }}
- {{ . | quote }}
{{- end }}
{{- end -}}
