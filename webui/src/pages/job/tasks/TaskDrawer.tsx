import { Drawer } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { taskAttempts } from "@/api/jobs";
import { rawLogUrl } from "@/api/logs";
import type { Attempt, Job, Stream, Task, TaskRole } from "@/api/types";
import { exitLabel, shortModel, taskName } from "@/format/names";
import { formatMegabytes, pluralize } from "@/format/numbers";
import { CopyButton } from "@/ui/CopyButton";
import { CopyableCode } from "@/ui/CopyableCode";
import { Icon } from "@/ui/Icon";
import { LinkButton } from "@/ui/LinkButton";
import { isUnread, ReadNote } from "@/ui/ReadNote";
import { StateBadge } from "@/ui/StateBadge";
import { ElapsedTime, RelativeTime } from "@/ui/Time";
import { diagnosisTitle } from "../failure/labels";
import { execCommand } from "../labels";
import { portsText } from "./labels";
import { ImageSaveList, SaveImageButton } from "./SaveImage";
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
      {task ? <TaskDetails job={job} task={task} /> : null}
    </Drawer>
  );
}

function TaskDetails({ job, task }: { job: Job; task: Task }) {
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
            Logs
          </LinkButton>
        </span>
      </div>
      {job.may_exec && task.state === "RUNNING" ? (
        <>
          <CopyableCode text={execCommand(job, task)} label="Command for a shell" />
          <span>
            <SaveImageButton job={job} task={task} />
          </span>
        </>
      ) : null}
      <ImageSaveList job={job} task={task} />
      {task.attempt?.error_message ? (
        <p className={css.error}>{task.attempt.error_message}</p>
      ) : null}
      <dl className={css.list}>
        <AttemptEntry name="Rank">{task.rank}</AttemptEntry>
        {task.attempt ? <AttemptEntries attempt={task.attempt} /> : null}
        {role ? (
          <>
            <AttemptEntry name="Image">{role.image}</AttemptEntry>
            <AttemptEntry name="Requests">
              {pluralize(role.cpus, "CPU")}, {formatMegabytes(role.memory_mb)} memory,{" "}
              {gpuText(role)}
            </AttemptEntry>
            {role.task_retries ? (
              <AttemptEntry name="Retries">up to {role.task_retries} by itself</AttemptEntry>
            ) : null}
            <AttemptEntry name="Command">
              <pre className={css.command}>{role.command}</pre>
            </AttemptEntry>
          </>
        ) : null}
      </dl>
      <TaskAttempts job={job} task={task} />
    </div>
  );
}

function gpuText({ gpus, gpu_model, cell_type, cells }: TaskRole): string {
  if (cell_type) return `${pluralize(cells, "cell")} of ${cell_type}`;
  return gpu_model && gpus ? `${gpus} × ${shortModel(gpu_model)}` : pluralize(gpus, "GPU");
}

function AttemptEntries({ attempt }: { attempt: Attempt }) {
  const exit = exitLabel(attempt);
  const ports = portsText(attempt.ports);
  return (
    <>
      <AttemptEntry name="Attempt">
        {attempt.index}
        {attempt.retry > 0 ? `, retry ${attempt.retry} of the task` : ""}{" "}
        <span className={css.id}>
          {attempt.id} <CopyButton text={attempt.id} label="Copy the attempt's id" />
        </span>
      </AttemptEntry>
      <AttemptEntry name="Node">{attempt.node}</AttemptEntry>
      <AttemptEntry name="Network">{attempt.network}</AttemptEntry>
      {ports ? <AttemptEntry name="Ports">{ports}</AttemptEntry> : null}
      {attempt.started_at ? (
        <AttemptEntry name="Started">
          <RelativeTime at={attempt.started_at} />, {attempt.finished_at ? "ran" : "runs"} for{" "}
          <ElapsedTime start={attempt.started_at} end={attempt.finished_at} />
        </AttemptEntry>
      ) : null}
      {exit ? <AttemptEntry name="Exit">{exit}</AttemptEntry> : null}
      {attempt.xids.length > 0 ? (
        <AttemptEntry name="GPU errors">XID {attempt.xids.join(", ")}</AttemptEntry>
      ) : null}
      {attempt.disk_full ? <AttemptEntry name="Disk">The node's disk was full</AttemptEntry> : null}
      {attempt.memory_peak_mb ? (
        <AttemptEntry name="Peak memory">{formatMegabytes(attempt.memory_peak_mb)}</AttemptEntry>
      ) : null}
      {attempt.gpu_uuids.length > 0 ? (
        <AttemptEntry name={attempt.gpu_uuids.length > 1 ? "GPUs" : "GPU"}>
          {attempt.gpu_model}
          <ul className={css.gpus}>
            {attempt.gpu_uuids.map((uuid) => (
              <li key={uuid}>{uuid}</li>
            ))}
          </ul>
        </AttemptEntry>
      ) : null}
    </>
  );
}

function AttemptEntry({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}

const STREAMS: Stream[] = ["stdout", "stderr"];

/** Every attempt of one task with its end and its own log files; nothing where there was one. */
function TaskAttempts({ job, task }: { job: Job; task: Task }) {
  const more = task.attempt !== null && (task.attempt.index > 1 || task.attempt.retry > 0);
  const query = useQuery({ ...taskAttempts(job.id, task.rank), enabled: more });
  if (!more || (!query.data && !isUnread(query))) return null;
  return (
    <section aria-label="All attempts">
      <h3 className={css.title}>All attempts</h3>
      <ReadNote query={query} what="list of its attempts" />
      <ol className={css.attempts}>
        {query.data?.map((attempt) => (
          <AttemptRow
            key={attempt.id}
            name={taskName(task)}
            attempt={attempt}
            kept={!job.logs_deleted_at}
          />
        ))}
      </ol>
    </section>
  );
}

function AttemptRow({ name, attempt, kept }: { name: string; attempt: Attempt; kept: boolean }) {
  const number = attempt.retry > 0 ? `${attempt.index}.${attempt.retry}` : `${attempt.index}`;
  const ended = attempt.error_code || exitLabel(attempt);
  return (
    <li className={css.attempt}>
      <span className="num">{number}</span>
      <StateBadge state={attempt.state} />
      <span className={css.node}>{attempt.node}</span>
      <span className={css.time}>
        <ElapsedTime start={attempt.started_at} end={attempt.finished_at} />
      </span>
      <span className={css.end}>
        {attempt.diagnosis ? diagnosisTitle(attempt.diagnosis) : ended}
        {kept
          ? STREAMS.map((stream) => (
              <a
                key={stream}
                className={css.log}
                href={rawLogUrl(attempt.id, stream)}
                download={`${name}.${number}.${stream}.log`}
              >
                {stream}
              </a>
            ))
          : null}
      </span>
    </li>
  );
}
