{{- /*
Labels that the values add to every object, at the indentation of metadata.labels.
*/ -}}
{{- define "sluice.labels" -}}
app.kubernetes.io/part-of: sluice
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /*
A document of the Kustomize base, for the namespace of the release and with the labels of
the values: dict "root" $ "text" DOCUMENT.
*/ -}}
{{- define "sluice.document" -}}
{{- $text := .text | trimSuffix "\n" | replace "namespace: sluice-system" (printf "namespace: %s" .root.Release.Namespace) }}
{{- $text = $text | replace "namespace sluice-system" (printf "namespace %s" .root.Release.Namespace) }}
{{- with .root.Values.commonLabels }}
{{- $text = regexReplaceAllLiteral "(?m)^  labels:$" $text (printf "  labels:\n%s" (toYaml . | indent 4)) }}
{{- end }}
{{- $text }}
{{- end }}

{{- /*
The annotation by which cert-manager puts its authority into an object.
*/ -}}
{{- define "sluice.injection" -}}
cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/sluice-webhook
{{- end }}

{{- define "sluice.image" -}}
{{- .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- with .Values.image.digest }}@{{ . }}{{ end }}
{{- end }}
