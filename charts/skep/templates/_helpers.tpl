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

{{/* The settings of the server. What extraEnv names is left out: a name that is given twice is refused by a server-side apply. */}}
{{- define "skep.env" -}}
{{- $extra := list }}
{{- range .Values.extraEnv }}{{ $extra = append $extra .name }}{{ end }}
{{- range $name, $key := dict "SKEP_SECRET_KEY" "secret-key" "SKEP_DATABASE_URL" "database-url" "SKEP_REDIS_URL" "redis-url" "SKEP_SECRETS_KEYS" "secrets-keys" }}
{{- if not (has $name $extra) }}
- name: {{ $name }}
  valueFrom: {secretKeyRef: {name: {{ include "skep.secret" $ }}, key: {{ $key }}, optional: {{ eq $key "secrets-keys" }}}}
{{- end }}
{{- end }}
{{- $plain := dict "SKEP_DATA_DIR" "/var/lib/skep" "SKEP_LIVENESS_FILE" "/tmp/alive" }}
{{- $_ := set $plain "SKEP_PUBLIC_URL" .Values.publicUrl }}
{{- $_ := set $plain "SKEP_APPS_URL" .Values.apps.url }}
{{- $_ := set $plain "SKEP_GATEWAY_URL" .Values.gatewayUrl }}
{{- $_ := set $plain "SKEP_GATEWAY_BACKEND" (printf "http://%s-gateway:%v" (include "skep.name" .) .Values.gatewayService.port) }}
{{- $_ := set $plain "SKEP_TRUSTED_PROXIES" (join "," (ternary .Values.ingress.trustedProxies list .Values.ingress.enabled)) }}
{{- $_ := set $plain "SKEP_NODE_CHECKS" (toString .Values.nodeChecks) }}
{{- if .Values.logs.store }}
{{- $_ := set $plain "SKEP_LOG_STORE" .Values.logs.store }}
{{- $_ := set $plain "SKEP_S3_ENDPOINT_URL" .Values.logs.s3EndpointUrl }}
{{- end }}
{{- range $name, $value := $plain }}
{{- if not (has $name $extra) }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Not of the hook that migrates: before an upgrade that switches metrics on, the Secret has no token yet. */}}
{{- define "skep.metricsEnv" -}}
{{- if .Values.metrics.enabled }}
{{- $extra := list }}
{{- range .Values.extraEnv }}{{ $extra = append $extra .name }}{{ end }}
{{- if not (has "SKEP_METRICS_LISTEN" $extra) }}
- {name: SKEP_METRICS_LISTEN, value: ":{{ .Values.metrics.port }}"}
{{- end }}
{{- if not (has "SKEP_METRICS_TOKEN" $extra) }}
- name: SKEP_METRICS_TOKEN
  valueFrom: {secretKeyRef: {name: {{ include "skep.secret" . }}, key: metrics-token}}
{{- end }}
{{- end }}
{{- end }}

{{/* Those of the agent, in the same way. */}}
{{- define "skep.agentEnv" -}}
{{- $agent := .Values.agent }}
{{- $extra := list }}
{{- range $agent.extraEnv }}{{ $extra = append $extra .name }}{{ end }}
{{- if not (has "SKEP_NODE_NAME" $extra) }}
- name: SKEP_NODE_NAME
  valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
{{- end }}
{{- if not (has "SKEP_JOIN_TOKEN" $extra) }}
- name: SKEP_JOIN_TOKEN
  valueFrom: {secretKeyRef: {name: {{ $agent.joinTokenSecret }}, key: join-token, optional: true}}
{{- end }}
{{- with $agent.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- $plain := dict "SKEP_SERVER" .Values.publicUrl "SKEP_AGENT_STATE" "/var/lib/skep-agent" "NVIDIA_VISIBLE_DEVICES" "all" "NVIDIA_DRIVER_CAPABILITIES" "compute,utility" }}
{{- if $agent.metricsPort }}
{{- if not (has "SKEP_NODE_ADDRESS" $extra) }}
- name: SKEP_NODE_ADDRESS
  valueFrom: {fieldRef: {fieldPath: status.hostIP}}
{{- end }}
{{- $_ := set $plain "SKEP_AGENT_METRICS" (printf "$(SKEP_NODE_ADDRESS):%v" $agent.metricsPort) }}
{{- end }}
{{- if $agent.storages.enabled }}
{{- $_ := set $plain "SKEP_NFS_SERVERS" (join " " $agent.storages.nfsServers) }}
{{- $_ := set $plain "SKEP_S3_ENDPOINTS" (join " " $agent.storages.s3Endpoints) }}
{{- $_ := set $plain "SKEP_STORAGE_ROOTS" (join " " $agent.storages.roots) }}
{{- end }}
{{- range $name, $value := $plain }}
{{- if not (has $name $extra) }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end }}
{{- end }}

{{- define "skep.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10470
fsGroup: 10470
# Else the kubelet changes the owner of each chunk of logs before a pod starts.
fsGroupChangePolicy: OnRootMismatch
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
          env:
            {{- include "skep.env" .root | nindent 12 }}
            {{- include "skep.metricsEnv" .root | nindent 12 }}
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
            {{- with .root.Values.extraVolumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
      volumes:
        - {name: tmp, emptyDir: {}}
        - name: data
          {{- if .root.Values.logs.store }}
          emptyDir: {}
          {{- else }}
          persistentVolumeClaim: {claimName: {{ include "skep.claim" .root }}}
          {{- end }}
        {{- with .root.Values.extraVolumes }}
        {{- toYaml . | nindent 8 }}
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

{{/* The ports of PostgreSQL or Redis, of a NetworkPolicy. */}}
{{- define "skep.enginePorts" -}}
{{- $ports := list }}
{{- range prepend (.extraPorts | default list) .port }}{{ $ports = append $ports (dict "protocol" "TCP" "port" (int .)) }}{{ end }}
{{- toJson $ports }}
{{- end }}

{{/* Where PostgreSQL or Redis is, as a peer of a NetworkPolicy: by labels, by network, or nothing for anywhere. */}}
{{- define "skep.enginePeer" -}}
{{- if .podLabels -}}
{podSelector: {matchLabels: {{ toJson .podLabels }}}{{ with .namespaceLabels }}, namespaceSelector: {matchLabels: {{ toJson . }}}{{ end }}}
{{- else if .cidr -}}
{ipBlock: {cidr: {{ .cidr }}}}
{{- end -}}
{{- end }}
