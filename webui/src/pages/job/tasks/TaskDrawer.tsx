import { Drawer } from "@mantine/core";
import type { Attempt, Job, Task, TaskRole } from "@/api/types";
import { exitWords, shortModel, taskName } from "@/format/names";
import { count, megabytes } from "@/format/size";
import { CodeLine } from "@/ui/CodeLine";
import { CopyButton } from "@/ui/CopyButton";
import { Icon } from "@/ui/Icon";
import { LinkButton } from "@/ui/LinkButton";
import { StateBadge } from "@/ui/StateBadge";
import { Ago, Elapsed } from "@/ui/Time";
import { execCommand } from "../words";
import { TaskAttempts } from "./TaskAttempts";
import { portWords } from "./words";
import css from "./TaskDrawer.module.css";

interface Props {
  job: Job;
  task: Task | null;
  onClose: () => void;
}

/** Everything about one task. */
export function TaskDrawer({ job, task, onClose }: Props) {
  return (
    <Drawer
      opened={task !== null}
      onClose={onClose}
      position="right"
      size={440}
      title={task ? taskName(task) : ""}
    >
      {task ? <About job={job} task={task} /> : null}
    </Drawer>
  );
}

function About({ job, task }: { job: Job; task: Task }) {
  const role = job.task_roles.find((each) => each.name === task.role);
  return (
    <div className={css.about}>
      <div className={css.top}>
        <StateBadge state={task.state} large />
        <span className={css.ways}>
          {job.may_exec && task.state === "RUNNING" ? (
            <LinkButton
              to="/jobs/$id"
              params={{ id: job.id }}
              search={{ tab: "terminal", rank: task.rank }}
              variant="default"
              leftSection={<Icon name="terminal" size={14} />}
            >
              Terminal
            </LinkButton>
          ) : null}
          <LinkButton
            to="/jobs/$id"
            params={{ id: job.id }}
            search={{ tab: "logs", rank: task.rank }}
            variant="default"
          >
            Its log
          </LinkButton>
        </span>
      </div>
      {job.may_exec && task.state === "RUNNING" ? (
        <CodeLine text={execCommand(job, task)} label="Command for a shell" />
      ) : null}
      {task.attempt?.error_message ? (
        <p className={css.error}>{task.attempt.error_message}</p>
      ) : null}
      <dl className={css.list}>
        <Entry name="Rank">{task.rank}</Entry>
        {task.attempt ? <AttemptEntries attempt={task.attempt} /> : null}
        {role ? (
          <>
            <Entry name="Image">{role.image}</Entry>
            <Entry name="Asked for">
              {count(role.cpus, "CPU")}, {megabytes(role.memory_mb)} memory, {gpuWords(role)}
            </Entry>
            {role.task_retries ? (
              <Entry name="Retries">up to {role.task_retries} by itself</Entry>
            ) : null}
            <Entry name="Command">
              <pre className={css.command}>{role.command}</pre>
            </Entry>
          </>
        ) : null}
      </dl>
      <TaskAttempts job={job} task={task} />
    </div>
  );
}

function gpuWords({ gpus, gpu_model, cell_type, cells }: TaskRole): string {
  if (cell_type) return `${count(cells, "cell")} of ${cell_type}`;
  return gpu_model && gpus ? `${gpus} × ${shortModel(gpu_model)}` : count(gpus, "GPU");
}

function AttemptEntries({ attempt }: { attempt: Attempt }) {
  const exit = exitWords(attempt);
  const ports = portWords(attempt.ports);
  return (
    <>
      <Entry name="Attempt">
        {attempt.index}
        {attempt.retry > 0 ? `, retry ${attempt.retry} of the task` : ""}{" "}
        <span className={css.id}>
          {attempt.id} <CopyButton text={attempt.id} label="Copy the attempt's id" />
        </span>
      </Entry>
      <Entry name="Node">{attempt.node}</Entry>
      <Entry name="Network">{attempt.network}</Entry>
      {ports ? <Entry name="Ports">{ports}</Entry> : null}
      {attempt.started_at ? (
        <Entry name="Started">
          <Ago at={attempt.started_at} />, {attempt.finished_at ? "ran" : "runs"} for{" "}
          <Elapsed start={attempt.started_at} end={attempt.finished_at} />
        </Entry>
      ) : null}
      {exit ? <Entry name="Exit">{exit}</Entry> : null}
      {attempt.xids.length > 0 ? (
        <Entry name="GPU errors">XID {attempt.xids.join(", ")}</Entry>
      ) : null}
      {attempt.disk_full ? <Entry name="Disk">The node's disk was full</Entry> : null}
      {attempt.memory_peak_mb ? (
        <Entry name="Peak memory">{megabytes(attempt.memory_peak_mb)}</Entry>
      ) : null}
      {attempt.gpu_uuids.length > 0 ? (
        <Entry name={attempt.gpu_uuids.length > 1 ? "GPUs" : "GPU"}>
          {attempt.gpu_model}
          <ul className={css.gpus}>
            {attempt.gpu_uuids.map((uuid) => (
              <li key={uuid}>{uuid}</li>
            ))}
          </ul>
        </Entry>
      ) : null}
    </>
  );
}

function Entry({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}
