/** What the examples fill in: things that this visitor really has. */
export interface Ground {
  virtualCluster: string;
  image: string;
}

export interface Example {
  title: string;
  about: string;
  text: (ground: Ground) => string;
}

export const EXAMPLES: Example[] = [
  {
    title: "One task",
    about: "A single container without a GPU",
    text: ({ virtualCluster, image }) => `protocolVersion: 2
name: hello
type: job
prerequisites:
  - name: image
    type: dockerimage
    uri: ${image}
taskRoles:
  main:
    instances: 1
    dockerImage: image
    resourcePerInstance:
      cpu: 1
      memoryMB: 512
      gpu: 0
    commands:
      - echo "Hello from $(hostname)"
      - for i in 1 2 3 4 5; do echo "step $i"; sleep 1; done
defaults:
  virtualCluster: ${virtualCluster}
`,
  },
  {
    title: "GPUs on one node",
    about: "One container with two GPUs",
    text: ({ virtualCluster, image }) => `protocolVersion: 2
name: train-one-node
type: job
prerequisites:
  - name: image
    type: dockerimage
    uri: ${image}
taskRoles:
  worker:
    instances: 1
    dockerImage: image
    resourcePerInstance:
      cpu: 8
      memoryMB: 32768
      gpu: 2
    commands:
      - nvidia-smi --list-gpus
      - python train.py
defaults:
  virtualCluster: ${virtualCluster}
`,
  },
  {
    title: "Data-parallel training",
    about: "A gang of four tasks that find each other",
    text: ({ virtualCluster, image }) => `protocolVersion: 2
name: train-distributed
type: job
jobRetryCount: 1
prerequisites:
  - name: image
    type: dockerimage
    uri: ${image}
taskRoles:
  worker:
    # All four start together or not at all.
    instances: 4
    completion:
      minFailedInstances: 1
    dockerImage: image
    resourcePerInstance:
      cpu: 8
      memoryMB: 65536
      gpu: 4
    commands:
      # Given to every task: MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE, NODE_RANK
      - >-
        torchrun --nnodes=$PAI_TASK_ROLE_TASK_COUNT_worker --node-rank=$NODE_RANK
        --nproc-per-node=4 --master-addr=$MASTER_ADDR --master-port=$MASTER_PORT
        train.py
defaults:
  virtualCluster: ${virtualCluster}
extras:
  hivedScheduler:
    jobPriorityClass: prod
`,
  },
  {
    title: "Parameter servers",
    about: "Two roles; the job is over when the workers are",
    text: ({ virtualCluster, image }) => `protocolVersion: 2
name: parameter-servers
type: job
prerequisites:
  - name: image
    type: dockerimage
    uri: ${image}
taskRoles:
  ps:
    instances: 2
    completion:
      minSucceededInstances: -1
    dockerImage: image
    resourcePerInstance:
      cpu: 4
      memoryMB: 16384
      gpu: 0
      ports:
        grpc: 1
    commands:
      - python server.py
  worker:
    instances: 4
    completion:
      minFailedInstances: 1
      minSucceededInstances: 4
    dockerImage: image
    resourcePerInstance:
      cpu: 8
      memoryMB: 32768
      gpu: 1
    commands:
      - python worker.py
defaults:
  virtualCluster: ${virtualCluster}
`,
  },
];
