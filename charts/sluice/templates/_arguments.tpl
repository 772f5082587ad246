{{- /*
The manager's flags, one a line of a YAML list.
*/ -}}
{{- define "sluice.arguments" -}}
{{- $o := .Values.operator }}
{{- $r := .Values.registries }}
{{- with $o.workers }}
- --workers={{ . | int }}
{{- end }}
{{- with $o.kubeApiQps }}
- --kube-api-qps={{ . }}
{{- end }}
{{- with $o.retryBaseDelay }}
- --retry-base-delay={{ . }}
{{- end }}
{{- with $o.retryMaxDelay }}
- --retry-max-delay={{ . }}
{{- end }}
{{- with $o.watchLabelSelector }}
- {{ printf "--watch-label-selector=%s" . | quote }}
{{- end }}
{{- with $o.prometheusAddress }}
- {{ printf "--prometheus-address=%s" . | quote }}
{{- end }}
{{- range $host, $to := $r.mirrors }}
- {{ printf "--registry-mirror=%s=%s" $host $to | quote }}
{{- end }}
{{- range $r.insecure }}
- {{ printf "--insecure-registry=%s" . | quote }}
{{- end }}
{{- range $r.tokenHosts }}
- {{ printf "--registry-token-host=%s" . | quote }}
{{- end }}
{{- range $r.authorities.keys }}
- {{ printf "--registry-ca-file=/authorities/%s" . | quote }}
{{- end }}
{{- range $cloud, $on := $r.credentials }}
{{- if $on }}
- --{{ $cloud }}-credentials
{{- end }}
{{- end }}
{{- if .Values.certManager.enabled }}
- --webhook-certificate-dir=/certificates
{{- end }}
{{- range $o.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}

{{- define "sluice.volumes" -}}
{{- if .Values.certManager.enabled }}
- name: certificates
  secret: {secretName: sluice-webhook-cert-manager}
{{- end }}
{{- with .Values.registries.authorities.configMap }}
- name: authorities
  configMap: {name: {{ . | quote }}}
{{- end }}
{{- end }}

{{- define "sluice.mounts" -}}
{{- if .Values.certManager.enabled }}
- {name: certificates, mountPath: /certificates, readOnly: true}
{{- end }}
{{- if .Values.registries.authorities.configMap }}
- {name: authorities, mountPath: /authorities, readOnly: true}
{{- end }}
{{- end }}
