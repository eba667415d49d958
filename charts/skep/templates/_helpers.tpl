{{- define "skep.name" -}}{{ printf "%s" .Release.Name | trunc 48 | trimSuffix "-" }}{{- end }}

{{- define "skep.labels" -}}
app.kubernetes.io/name: skep
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "skep.selector" -}}
app.kubernetes.io/name: skep
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "skep.secret" -}}{{ .Values.existingSecret | default (printf "%s-settings" (include "skep.name" .)) }}{{- end }}

{{- define "skep.claim" -}}{{ .Values.logs.existingClaim | default (printf "%s-logs" (include "skep.name" .)) }}{{- end }}

{{- define "skep.image" -}}{{ printf "%s:%s" .image.repository (.image.tag | default .root.Chart.AppVersion) }}{{- end }}

{{- define "skep.env" -}}
- name: SKEP_SECRET_KEY
  valueFrom: {secretKeyRef: {name: {{ include "skep.secret" . }}, key: secret-key}}
- name: SKEP_DATABASE_URL
  valueFrom: {secretKeyRef: {name: {{ include "skep.secret" . }}, key: database-url}}
- name: SKEP_REDIS_URL
  valueFrom: {secretKeyRef: {name: {{ include "skep.secret" . }}, key: redis-url}}
{{- $extra := list }}
{{- range .Values.extraEnv }}{{ $extra = append $extra .name }}{{ end }}
{{- if not (has "SKEP_SECRETS_KEYS" $extra) }}
- name: SKEP_SECRETS_KEYS
  valueFrom: {secretKeyRef: {name: {{ include "skep.secret" . }}, key: secrets-keys, optional: true}}
{{- end }}
- {name: SKEP_DATA_DIR, value: /var/lib/skep}
- {name: SKEP_LIVENESS_FILE, value: /tmp/alive}
- {name: SKEP_PUBLIC_URL, value: {{ .Values.publicUrl | quote }}}
- {name: SKEP_APPS_URL, value: {{ .Values.apps.url | quote }}}
- {name: SKEP_GATEWAY_URL, value: {{ .Values.gatewayUrl | quote }}}
- {name: SKEP_GATEWAY_BACKEND, value: {{ printf "http://%s-gateway:%v" (include "skep.name" .) .Values.gatewayService.port | quote }}}
- {name: SKEP_TRUSTED_PROXIES, value: {{ join "," (ternary .Values.ingress.trustedProxies list .Values.ingress.enabled) | quote }}}
- {name: SKEP_NODE_CHECKS, value: {{ .Values.nodeChecks | quote }}}
{{- if .Values.metrics.enabled }}
- {name: SKEP_METRICS_LISTEN, value: ":{{ .Values.metrics.port }}"}
- name: SKEP_METRICS_TOKEN
  valueFrom: {secretKeyRef: {name: {{ include "skep.secret" . }}, key: metrics-token}}
{{- end }}
{{- if .Values.logs.store }}
- {name: SKEP_LOG_STORE, value: {{ .Values.logs.store | quote }}}
- {name: SKEP_S3_ENDPOINT_URL, value: {{ .Values.logs.s3EndpointUrl | quote }}}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "skep.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10470
fsGroup: 10470
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* Where and as whom the pods of the server run. */}}
{{- define "skep.podPlacement" -}}
automountServiceAccountToken: false
{{- with .Values.pods.serviceAccountName }}
serviceAccountName: {{ . }}
{{- end }}
{{- with .Values.pods.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.pods.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.pods.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "skep.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* A Deployment of the server image, and how many of its pods a drain of nodes may end at a time: dict root component replicas strategy command resources probes port */}}
{{- define "skep.deployment" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "skep.name" .root }}-{{ .component }}
  labels:
    {{- include "skep.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
spec:
  replicas: {{ .replicas }}
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}
  selector:
    matchLabels:
      {{- include "skep.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "skep.selector" . | nindent 8 }}
      annotations:
        checksum/secret: {{ include (print .root.Template.BasePath "/secret.yaml") .root | sha256sum }}
    spec:
      {{- include "skep.podPlacement" .root | nindent 6 }}
      enableServiceLinks: false
      {{- with .root.Values.imagePullSecrets }}
      imagePullSecrets: {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext: {{- include "skep.podSecurity" . | nindent 8 }}
      terminationGracePeriodSeconds: 60
      # Replicas of a part lie on different machines where that can be.
      affinity:
        podAntiAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
            - weight: 100
              podAffinityTerm:
                topologyKey: kubernetes.io/hostname
                labelSelector:
                  matchLabels:
                    {{- include "skep.selector" . | nindent 20 }}
      containers:
        - name: {{ .component }}
          image: {{ include "skep.image" (dict "root" .root "image" .root.Values.image.server) }}
          imagePullPolicy: {{ .root.Values.image.server.pullPolicy }}
          {{- with .command }}
          command: {{ toJson . }}
          {{- end }}
          env: {{- include "skep.env" .root | nindent 12 }}
          securityContext: {{- include "skep.containerSecurity" . | nindent 12 }}
          resources: {{- toYaml .resources | nindent 12 }}
          {{- if or .port .root.Values.metrics.enabled }}
          ports:
            {{- with .port }}
            - {name: http, containerPort: {{ . }}}
            {{- end }}
            {{- if .root.Values.metrics.enabled }}
            - {name: metrics, containerPort: {{ .root.Values.metrics.port }}}
            {{- end }}
          {{- end }}
          {{- if .port }}
          # Proxies learn with a delay that a pod ends: until then it takes requests.
          lifecycle: {preStop: {exec: {command: [sleep, "8"]}}}
          {{- end }}
          {{- with .probes }}
          {{- . | nindent 10 }}
          {{- end }}
          volumeMounts:
            - {name: tmp, mountPath: /tmp}
            - {name: data, mountPath: /var/lib/skep}
      volumes:
        - {name: tmp, emptyDir: {}}
        - name: data
          {{- if .root.Values.logs.store }}
          emptyDir: {}
          {{- else }}
          persistentVolumeClaim: {claimName: {{ include "skep.claim" .root }}}
          {{- end }}
---
apiVersion: {{ ternary "policy/v1" "policy/v1beta1" (semverCompare ">=1.21-0" .root.Capabilities.KubeVersion.Version) }}
kind: PodDisruptionBudget
metadata:
  name: {{ include "skep.name" .root }}-{{ .component }}
  labels: {{- include "skep.labels" .root | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      {{- include "skep.selector" . | nindent 6 }}
{{- end }}

{{/* Where PostgreSQL or Redis is, as a peer of a NetworkPolicy: by labels, by network, or nothing for anywhere. */}}
{{- define "skep.enginePeer" -}}
{{- if .podLabels -}}
{podSelector: {matchLabels: {{ toJson .podLabels }}}{{ with .namespaceLabels }}, namespaceSelector: {matchLabels: {{ toJson . }}}{{ end }}}
{{- else if .cidr -}}
{ipBlock: {cidr: {{ .cidr }}}}
{{- end -}}
{{- end }}
