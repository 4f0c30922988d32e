{{/* The name of every object: the release's, with volume-doctor in it. */}}
{{- define "volume-doctor.name" -}}
{{- if contains "volume-doctor" .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-volume-doctor" (.Release.Name | trunc 36 | trimSuffix "-") -}}
{{- end -}}
{{- end -}}

{{/* The labels that pods are selected by. */}}
{{- define "volume-doctor.selector" -}}
app.kubernetes.io/name: volume-doctor
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "volume-doctor.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}
