/** What the examples fill in: things that this visitor really has. */
export interface ExampleSettings {
  virtualCluster: string;
  image: string;
}

export interface Example {
  title: string;
  about: string;
  text: (ground: ExampleSettings) => string;
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
    about: "One container with a GPU",
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
      cpu: 2
      memoryMB: 2048
      gpu: 1
    commands:
      - echo "GPUs $NVIDIA_VISIBLE_DEVICES"
      # Yours in its place, for example: python train.py
      - for step in 1 2 3 4 5; do echo "step $step"; sleep 1; done
defaults:
  virtualCluster: ${virtualCluster}
`,
  },
  {
    title: "Data-parallel training",
    about: "A gang of two tasks that find each other",
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
    # Both start together or not at all.
    instances: 2
    completion:
      minFailedInstances: 1
    dockerImage: image
    resourcePerInstance:
      cpu: 2
      memoryMB: 2048
      gpu: 1
    commands:
      # Given to every task: MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE, NODE_RANK
      - echo "node $NODE_RANK, rendezvous at $MASTER_ADDR:$MASTER_PORT"
      # Yours in its place, for example: torchrun --nnodes=2 --node-rank=$NODE_RANK
      # --nproc-per-node=1 --master-addr=$MASTER_ADDR --master-port=$MASTER_PORT train.py
      - for step in 1 2 3 4 5; do echo "step $step"; sleep 1; done
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
    instances: 1
    completion:
      minSucceededInstances: -1
    dockerImage: image
    resourcePerInstance:
      cpu: 1
      memoryMB: 1024
      gpu: 0
      ports:
        grpc: 1
    commands:
      # Yours in its place, for example: python server.py
      - sleep 3600
  worker:
    instances: 2
    completion:
      minFailedInstances: 1
      minSucceededInstances: 2
    dockerImage: image
    resourcePerInstance:
      cpu: 1
      memoryMB: 1024
      gpu: 1
    commands:
      - for step in 1 2 3 4 5; do echo "step $step"; sleep 1; done
defaults:
  virtualCluster: ${virtualCluster}
`,
  },
];
