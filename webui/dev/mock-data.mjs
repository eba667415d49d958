// What the mock server tells: a cluster of 16 nodes with 8 GPUs each, and jobs in every state.
import { readFileSync } from "node:fs";

const now = Date.now();
const past = (seconds) => new Date(now - seconds * 1000).toISOString();
const id = (n) => `0198f2aa-7c00-7000-8000-${String(n).padStart(12, "0")}`;
const A100 = "NVIDIA A100-SXM4-80GB";
const H100 = "NVIDIA H100 80GB HBM3";
const random = (seed) => {
  const x = Math.sin(seed * 12.9898) * 43758.5453;
  return x - Math.floor(x);
};

export const me = {
  id: 1,
  username: "mei",
  email: "mei@example.org",
  is_admin: true,
  virtual_clusters: [
    { name: "vision", role: "manager" },
    { name: "language", role: "member" },
  ],
};
export const tokens = [
  { id: "t1", name: "laptop", created_at: past(864000), expires_at: past(-2592000) },
];
export const users = ["mei", "ada", "tomas", "yuki", "omar"].map((username, i) => ({
  username,
  email: `${username}@example.org`,
  is_admin: i === 0,
  is_active: i !== 4,
}));
export const members = users.slice(0, 4).map(({ username }, i) => ({
  username,
  role: i === 0 ? "manager" : "member",
}));
export const images = [
  {
    name: "pytorch",
    reference: "pytorch/pytorch:2.9-cuda12.8",
    description: "PyTorch with CUDA",
    virtual_clusters: [],
  },
  {
    name: "jax",
    reference: "ghcr.io/nvidia/jax:2026-01",
    description: "JAX nightly",
    virtual_clusters: ["language"],
  },
];
export const vcs = [
  {
    name: "default",
    description: "Everybody",
    quotas: { [A100]: 8 },
    used: { [A100]: 2 },
    role: "member",
    members: 41,
  },
  {
    name: "vision",
    description: "Perception and video",
    quotas: { [A100]: 48, [H100]: 16 },
    used: { [A100]: 48, [H100]: 8 },
    role: "manager",
    members: 12,
  },
  {
    name: "language",
    description: "Language models",
    quotas: { [H100]: 48 },
    used: { [H100]: 36 },
    role: "member",
    members: 17,
  },
];
const VC = ["vision", "language", "default"];

const JOBS = [
  ["resnet-sweep-b64", "RUNNING", "mei", "vision", 32, 4, 4200],
  ["llm-pretrain-7b", "RUNNING", "ada", "language", 32, 4, 86400 * 2],
  ["video-embed", "WAITING", "tomas", "vision", 16, 2, 640],
  ["param-server-2k", "RUNNING", "mei", "vision", 0, 2000, 5400],
  ["distill-nightly", "FAILED", "mei", "vision", 8, 1, 9000],
  ["tokenizer-build", "SUCCEEDED", "ada", "language", 0, 4, 15000],
  ["ablation-17", "STOPPED", "yuki", "default", 4, 1, 22000],
  ["eval-suite", "STOPPING", "mei", "vision", 8, 8, 900],
  ["whisper-finetune", "WAITING", "yuki", "language", 64, 8, 120],
];

const WAITING = {
  code: "quota_in_use",
  message: "Needs 16 A100 in vision, which owns 48 and uses 48; 2 jobs are ahead.",
  details: { needs: 16, owns: 48, used: 48, ahead: 2 },
};
const FAILED = {
  code: "task_failed",
  message: "Task worker-0 failed with exit code 1, and the job allows no failed task.",
  details: { task: "worker-0", exit_code: 1 },
};

export const jobs = [
  ...JOBS.map(([name, state, owner, virtual_cluster, gpus, tasks, age], i) =>
    job(i, name, state, owner, virtual_cluster, gpus, tasks, age),
  ),
  ...Array.from({ length: 140 }, (_, i) =>
    job(
      100 + i,
      `sweep-lr-${i}`,
      ["SUCCEEDED", "SUCCEEDED", "FAILED"][i % 3],
      "ada",
      VC[i % 3],
      1 + (i % 8),
      1,
      30000 + i * 700,
    ),
  ),
];

function job(n, name, state, owner, virtual_cluster, gpus, tasks, age) {
  const over = ["SUCCEEDED", "FAILED", "STOPPED"].includes(state);
  const started = state !== "WAITING";
  return {
    id: id(n),
    name,
    owner,
    virtual_cluster,
    state,
    priority_class: "prod",
    priority: 100,
    gpus,
    tasks,
    attempt: started ? (n === 4 ? 2 : 1) : 0,
    retries_used: n === 4 ? 1 : 0,
    submitted_at: past(age + 30),
    placed_at: started ? past(age + 4) : null,
    started_at: started ? past(age) : null,
    finished_at: over ? past(age - Math.min(age, 3600 * random(n + 3))) : null,
    wait_reason: state === "WAITING" ? WAITING : null,
    exit_reason: state === "FAILED" ? FAILED : null,
  };
}

export function findJobs(query) {
  const states = query.get("state")?.split(",");
  const order = query.get("ordering") ?? "-submitted_at";
  const key = order.replace("-", "");
  return jobs
    .filter((each) => !states || states.includes(each.state))
    .filter((each) => each.name.includes(query.get("search") ?? ""))
    .filter((each) => [each.owner, null].includes(query.get("owner")))
    .filter((each) => [each.virtual_cluster, null].includes(query.get("virtual_cluster")))
    .sort((a, b) => (a[key] < b[key] ? -1 : 1) * (order.startsWith("-") ? -1 : 1));
}

const find = (jobId) => jobs.find((each) => each.id === jobId);
const text = (each) => `protocolVersion: 2
name: ${each.name}
type: job
prerequisites:
  - name: image
    type: dockerimage
    uri: pytorch/pytorch:2.9-cuda12.8
taskRoles:
  worker:
    instances: ${each.tasks}
    dockerImage: image
    resourcePerInstance: { cpu: 16, memoryMB: 131072, gpu: ${each.gpus / each.tasks} }
    commands:
      - torchrun --nnodes=$PAI_TASK_ROLE_TASK_COUNT_worker train.py
defaults:
  virtualCluster: ${each.virtual_cluster}
`;

export function jobDetail(jobId) {
  const each = find(jobId);
  if (!each) return null;
  const states = {};
  for (const task of tasksOf(jobId)) states[task.state] = (states[task.state] ?? 0) + 1;
  return {
    ...each,
    spec_text: text(each),
    may_stop: ["WAITING", "RUNNING"].includes(each.state),
    task_roles: [
      {
        name: "worker",
        instances: each.tasks,
        gpus: each.gpus / each.tasks,
        cpus: 16,
        memory_mb: 131072,
        image: "pytorch/pytorch:2.9-cuda12.8",
        command: "torchrun --nnodes=$PAI_TASK_ROLE_TASK_COUNT_worker train.py",
        states,
      },
    ],
  };
}

export function tasksOf(jobId) {
  const each = find(jobId);
  if (!each) return [];
  return Array.from({ length: each.tasks }, (_, index) => task(each, index));
}

function task(each, index) {
  const n = Number(each.id.slice(-12));
  const state =
    each.tasks > 1000 ? ["RUNNING", "RUNNING", "SUCCEEDED", "PREPARING"][index % 4] : each.state;
  const per = each.gpus / each.tasks;
  const failed = state === "FAILED";
  return {
    id: n * 10000 + index,
    role: "worker",
    index,
    rank: index,
    state,
    attempt:
      state === "WAITING"
        ? null
        : {
            id: id(n * 10000 + index),
            index: each.attempt,
            state,
            node: `hive-${String(1 + ((n * 4 + index) % 16)).padStart(2, "0")}`,
            phase: state === "PREPARING" ? "pulling" : "running",
            pull_percent: state === "PREPARING" ? (index * 7) % 100 : null,
            gpu_uuids: Array.from({ length: per }, (_, g) => gpuUuid((n * 4 + index) % 16, g)),
            gpu_model: per ? A100 : "",
            network: "host",
            ports: { ssh: [20001 + index] },
            exit_code: failed ? 1 : state === "SUCCEEDED" ? 0 : null,
            exit_signal: null,
            oom_killed: false,
            error_code: "",
            error_message: "",
            memory_peak_mb: 41230 + index * 13,
            started_at: each.started_at,
            finished_at: each.finished_at ?? (state === "SUCCEEDED" ? past(400) : null),
          },
  };
}

export function eventsOf(jobId) {
  const each = find(jobId);
  const rows = [[each.submitted_at, "job.submitted", "Submitted to vision.", each.owner]];
  if (each.wait_reason) rows.push([each.submitted_at, "job.waiting", each.wait_reason.message, ""]);
  if (each.placed_at)
    rows.push([
      each.placed_at,
      "job.placed",
      `Placed ${each.tasks} tasks with ${each.gpus} GPUs on 4 nodes.`,
      "",
    ]);
  if (each.started_at) rows.push([each.started_at, "job.running", "The first task runs.", ""]);
  if (each.attempt > 1)
    rows.push([
      past(9400),
      "job.retried",
      "Task worker-0 failed with exit code 1; retry 1 of 1 begins.",
      "",
    ]);
  if (each.finished_at)
    rows.push([
      each.finished_at,
      `job.${each.state.toLowerCase()}`,
      each.exit_reason?.message ?? "All tasks succeeded.",
      "",
    ]);
  return rows.map(([at, kind, message, actor], n) => ({
    id: n,
    at,
    kind,
    message,
    actor,
    data: {},
  }));
}

export function metricsOf(jobId) {
  const each = find(jobId);
  const end = Math.floor(Date.now() / 10000) * 10;
  const series = (seed, top, wave) =>
    Array.from({ length: 180 }, (_, i) => {
      const t = end - (180 - i) * 10;
      const dip = i % 40 < 3 ? 0.2 : 1;
      return [
        t,
        Math.round(top * dip * (0.86 + 0.12 * random(seed + i))),
        Math.round(wave * (0.9 + 0.08 * Math.sin(i / 20 + seed))),
      ];
    });
  const some = tasksOf(jobId)
    .filter((t) => t.attempt)
    .slice(0, 64);
  return {
    step_s: 10,
    gpus: some.flatMap((t) =>
      t.attempt.gpu_uuids.map((uuid, g) => ({
        uuid,
        model: A100,
        node: t.attempt.node,
        role: t.role,
        index: t.index,
        points: series(t.rank * 8 + g, 96, 70000),
      })),
    ),
    tasks: each.started_at
      ? some.map((t) => ({ role: t.role, index: t.index, points: series(t.rank, 1500, 90000) }))
      : [],
  };
}

// A log that grows by itself; chunk n has cursor n + 1.
const CHUNK_MS = 400;
function chunk(each, n) {
  const rank = n % Math.max(1, Math.min(each.tasks, 8));
  const at = now - 6e6 + n * CHUNK_MS;
  const step = n * 10;
  const lines = [
    `[rank ${rank}] step ${step} loss ${(8 / Math.sqrt(1 + n)).toFixed(4)} lr 3.0e-04 \x1b[32m${(410 + 9 * random(n)).toFixed(1)} samples/s\x1b[0m`,
  ];
  if (n % 23 === 5)
    lines.push(`\x1b[33mWARNING\x1b[0m slow batch: 812 ms in the data loader of rank ${rank}`);
  if (n % 50 === 7)
    lines.push(
      `Epoch ${(n / 50) | 0}:  10%|█         |\rEpoch ${(n / 50) | 0}:  60%|██████    |\rEpoch ${(n / 50) | 0}: 100%|██████████| 500/500`,
    );
  if (each.state === "FAILED" && n > 14980)
    lines.push(
      "Traceback (most recent call last):",
      '  File "train.py", line 214, in <module>',
      "    main()",
      "\x1b[1;31mRuntimeError\x1b[0m: CUDA error: an illegal memory access was encountered",
    );
  return {
    cursor: n + 1,
    attempt_id: id(rank),
    role: "worker",
    index: rank,
    rank,
    stream: n % 23 === 5 ? "stderr" : "stdout",
    offset: n * 80,
    at: new Date(at).toISOString(),
    text: lines.join("\n") + "\n",
  };
}

export function logsOf(jobId, query) {
  const each = find(jobId);
  const over = Boolean(each.finished_at);
  const total =
    each.state === "WAITING" ? 0 : over ? 15000 : 15000 + Math.floor((Date.now() - now) / CHUNK_MS);
  const room = Math.floor(Number(query.get("limit") ?? 262144) / 90);
  const rank = query.get("rank");
  let [from, to] = [Number(query.get("cursor") ?? 0), total];
  if (query.has("tail")) from = Math.max(0, total - Math.floor(Number(query.get("tail")) / 90));
  else if (query.has("before"))
    [from, to] = [
      Math.max(0, Number(query.get("before")) - 1 - room),
      Number(query.get("before")) - 1,
    ];
  else to = Math.min(total, from + room);
  const chunks = Array.from({ length: Math.max(0, to - from) }, (_, i) => chunk(each, from + i));
  return {
    chunks: chunks.filter(
      (c) =>
        (rank === null || c.rank === Number(rank)) &&
        [c.stream, null].includes(query.get("stream")),
    ),
    next: Math.max(from, to),
    complete: over && to >= total,
  };
}

export function stop(jobId) {
  Object.assign(find(jobId), { state: "STOPPING" });
  return jobDetail(jobId);
}

export function submit(spec) {
  const name = /^name: (.+)$/m.exec(spec)?.[1] ?? "unnamed";
  jobs.unshift(job(jobs.length + 500, name, "WAITING", me.username, "vision", 8, 1, 0));
  return jobDetail(jobs[0].id);
}

export function check(spec) {
  const line = spec.split("\n").findIndex((each) => each.includes("virtualCluster: nowhere"));
  const errors =
    line < 0
      ? []
      : [
          {
            code: "unknown_virtual_cluster",
            message: "There is no virtual cluster nowhere that you may submit to.",
            path: "defaults.virtualCluster",
            line: line + 1,
            column: 19,
          },
        ];
  return {
    valid: errors.length === 0,
    errors,
    summary: errors.length
      ? null
      : { name: "mnist", virtual_cluster: "vision", gpus: 16, tasks: 2 },
    forecast: errors.length ? null : WAITING,
  };
}

const COUNT = Number(process.env.MOCK_NODES ?? 16);
export const nodes = Array.from({ length: COUNT }, (_, n) => node(n));
function gpuUuid(n, g) {
  return `GPU-${String(n + 11).padStart(4, "0")}${g}f3a-5c1e-4b7a-9d02-${String(n * 8 + g).padStart(12, "0")}`;
}

function node(n) {
  return {
    id: id(n),
    name: `hive-${String(n + 1).padStart(2, "0")}`,
    state: n === 13 ? "UNREACHABLE" : n === 15 ? "LOST" : "ONLINE",
    cordoned: n === 9,
    address: `10.0.4.${n + 10}`,
    cpus: 128,
    memory_mb: 1031000,
    runtime: "docker",
    driver_version: "570.86.15",
    engine_version: "28.1.1",
    agent_version: "0.1.0",
    last_heartbeat_at: past(n === 15 ? 900 : 2),
    gpus: Array.from({ length: 8 }, (_, g) => gpu(n, g)),
  };
}

function gpu(n, g) {
  const used = random(n * 8 + g) > 0.25 && n !== 15;
  const bad = n === 6 && g === 3;
  const owner = JOBS[Math.floor(random(n) * 4)];
  const mine = { job_id: id(JOBS.indexOf(owner)), job_name: owner[0], virtual_cluster: owner[3] };
  return {
    uuid: gpuUuid(n, g),
    model: n < 8 ? A100 : H100,
    index: g,
    memory_mb: 81920,
    health: bad ? "BAD" : "HEALTHY",
    problem: bad ? "XID 79: fallen off the bus" : "",
    used_by: used && !bad ? (random(n + 5) > 0.8 ? { virtual_cluster: "default" } : mine) : null,
    utilization: used && !bad ? Math.round(30 + 70 * random(n * 9 + g)) : 0,
    memory_used_mb: used ? 71000 : 4,
  };
}

export function clusterSummary() {
  const gpus = {};
  for (const each of nodes.flatMap((n) => n.gpus)) {
    const sum = (gpus[each.model] ??= { total: 0, used: 0, bad: 0 });
    sum.total += 1;
    if (each.used_by) sum.used += 1;
    if (each.health === "BAD") sum.bad += 1;
  }
  return {
    nodes: { ONLINE: 14, UNREACHABLE: 1, LOST: 1 },
    gpus,
    jobs: { WAITING: 2, RUNNING: 3 },
    version: "0.1.0",
  };
}

export const image = (name) => images.find((each) => each.name === name);
export const vc = (name) => vcs.find((each) => each.name === name);
export const person = (name) => users.find((each) => each.username === name);
export const cordon = (name, cordoned) =>
  Object.assign(
    nodes.find((each) => each.name === name),
    { cordoned },
  );
export const quotaRefusal = [
  409,
  "quota_exceeds_cluster",
  "The cluster has 64 A100; with this change the virtual clusters would own 120.",
  { has: 64, would_own: 120 },
];

export function setQuotas(name, quotas) {
  if (Object.values(quotas).some((n) => n > 64)) return null;
  return Object.assign(vc(name), { quotas });
}

export function setMember(username, role) {
  drop(members, "username", username);
  members.push({ username, role });
  return { username, role };
}

export function newVc(body) {
  vcs.push({ ...body, quotas: {}, used: {}, role: null, members: 0 });
  return vcs.at(-1);
}

export function newToken({ name }) {
  tokens.push({ id: `t${Date.now()}`, name, created_at: past(0), expires_at: null });
  return { token: "skep_5b1f0c9f6d2e4a7b8c3d", expires_at: null };
}

export const joinToken = () => ({
  token: "join_8f2c1d",
  expires_at: past(-3600),
  command: "skep-agent join --server https://skep.example.org --token join_8f2c1d",
});

export function drop(rows, key, value) {
  const at = rows.findIndex((each) => each[key] === value);
  if (at >= 0) rows.splice(at, 1);
}

export const schema = JSON.parse(readFileSync(new URL("mock-schema.json", import.meta.url)));

export function onTick(ring) {
  const timer = setInterval(ring, 1000);
  return () => clearInterval(timer);
}
