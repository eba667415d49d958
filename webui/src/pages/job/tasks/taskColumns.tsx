import { Link } from "@tanstack/react-router";
import type { Attempt, Job, Task } from "@/api/types";
import { exitLabel, shortModel, taskName } from "@/format/names";
import { formatMegabytes } from "@/format/numbers";
import { Icon } from "@/ui/Icon";
import { StateBadge } from "@/ui/StateBadge";
import type { Column } from "@/ui/table/columns";
import { ElapsedTime } from "@/ui/Time";
import { diagnosisTitle } from "../failure/labels";
import { isPulling, pullText } from "../labels";
import { requestsPorts, portsText } from "./labels";
import css from "./taskColumns.module.css";

interface GangContext {
  job: Job;
  /** Some task's image is being pulled. */
  pulling: boolean;
  /** Tasks that are ready, while they wait for the others; null: none waits. */
  ready: number | null;
}

export function taskColumns(
  { job, ready, pulling }: GangContext,
  onOpen: (task: Task["id"]) => void,
): Column<Task>[] {
  return [
    {
      id: "state",
      header: "State",
      width: pulling ? "minmax(104px, 260px)" : "minmax(104px, 168px)",
      cell: (task) => <TaskStateCell task={task} ready={ready} of={job.tasks} />,
      sortValue: (task) => task.state,
    },
    {
      id: "task",
      header: "Task",
      width: "minmax(96px, 1fr)",
      cell: (task) => (
        <button type="button" className={css.name} onClick={() => onOpen(task.id)}>
          {taskName(task)}
        </button>
      ),
      sortValue: (task) => taskName(task),
    },
    {
      id: "rank",
      header: "Rank",
      width: "56px",
      optional: true,
      align: "end",
      cell: (task) => <span className="num dim">{task.rank}</span>,
      sortValue: (task) => task.rank,
    },
    {
      id: "node",
      header: "Node",
      optional: "phone",
      width: "minmax(110px, 1fr)",
      cell: (task) => placementColumns(task)?.node ?? <span className="dim">–</span>,
      sortValue: (task) => placementColumns(task)?.node,
    },
    {
      id: "gpus",
      header: "GPUs",
      optional: "phone",
      width: "minmax(140px, 1.2fr)",
      cell: (task) => <Gpus attempt={placementColumns(task)} />,
      sortValue: (task) => placementColumns(task)?.gpu_uuids.length,
      exportValue: (task) => placementColumns(task)?.gpu_uuids.join(" "),
    },
    {
      id: "attempt",
      header: "Attempt",
      width: "70px",
      optional: true,
      align: "end",
      cell: (task) => <AttemptNumber attempt={task.attempt} />,
      sortValue: (task) => task.attempt && task.attempt.index * 1000 + task.attempt.retry,
      exportValue: (task) => task.attempt && `${task.attempt.index}.${task.attempt.retry}`,
    },
    ...(job.task_roles.some(requestsPorts) ? [PORTS] : []),
    {
      id: "exit",
      header: "Exit",
      optional: "phone",
      width: "minmax(110px, 1fr)",
      cell: (task) => <Exit attempt={task.attempt} />,
      sortValue: (task) => task.attempt?.exit_code,
    },
    {
      id: "memory",
      header: "Peak memory",
      width: "92px",
      optional: true,
      align: "end",
      cell: (task) => <Memory attempt={task.attempt} />,
      sortValue: (task) => task.attempt?.memory_peak_mb,
    },
    {
      id: "duration",
      header: "Run time",
      optional: "phone",
      width: "72px",
      align: "end",
      cell: (task) => (
        <ElapsedTime
          start={task.attempt?.started_at ?? null}
          end={task.attempt?.finished_at ?? null}
        />
      ),
      sortValue: (task) => task.attempt?.started_at,
      exportValue: runSeconds,
    },
    {
      id: "logs",
      header: "Logs and terminal",
      hiddenHeader: true,
      sticky: true,
      width: job.may_exec ? "64px" : "40px",
      align: "end",
      cell: (task) => (
        <span className={css.ways}>
          {job.may_exec && task.state === "RUNNING" ? (
            <Link
              to="/jobs/$id"
              params={{ id: job.id }}
              search={{ tab: "terminal", rank: task.rank }}
              className={css.terminal}
              aria-label={`Terminal of ${taskName(task)}`}
              title="Terminal"
            >
              <Icon name="terminal" />
            </Link>
          ) : null}
          {task.attempt ? (
            <Link
              to="/jobs/$id"
              params={{ id: job.id }}
              search={{ tab: "logs", rank: task.rank }}
              className={css.logs}
              aria-label={`Logs of ${taskName(task)}`}
            >
              Logs
            </Link>
          ) : null}
        </span>
      ),
    },
  ];
}

/** A task that waits has its place no more: that of its last attempt is history. */
function placementColumns(task: Task): Attempt | null {
  return task.state === "WAITING" ? null : task.attempt;
}

const PORTS: Column<Task> = {
  id: "ports",
  header: "Ports",
  optional: "phone",
  width: "minmax(110px, 1fr)",
  cell: (task) => <Ports ports={task.attempt?.ports ?? {}} />,
};

function Ports({ ports }: { ports: Attempt["ports"] }) {
  const words = portsText(ports);
  if (!words) return <span className="dim">–</span>;
  return (
    <span className="num clip" title={words}>
      {words}
    </span>
  );
}

interface StateProps {
  task: Task;
  ready: number | null;
  of: number;
}

function TaskStateCell({ task, ready, of }: StateProps) {
  const { attempt } = task;
  const waits = ready !== null && attempt?.ready_at && task.state === "PREPARING";
  const about = `Waits for the gang: ${ready} of ${of} ready`;
  return (
    <span className={css.state}>
      <StateBadge state={task.state} />
      {waits ? (
        <span className="dim num" title={about} aria-label={about}>
          {ready}/{of} ready
        </span>
      ) : attempt && isPulling(task) ? (
        <span className="dim num clip" title={`Pulling image, ${pullText(attempt)}`}>
          {pullText(attempt)}
        </span>
      ) : null}
    </span>
  );
}

/** Of the job, and where the task was retried by itself, of it. */
function AttemptNumber({ attempt }: { attempt: Attempt | null }) {
  if (!attempt) return <span className="dim">–</span>;
  return (
    <span className="num">
      {attempt.index}
      {attempt.retry > 0 ? (
        <span className={css.retry} title={`Retried ${attempt.retry} times by itself`}>
          .{attempt.retry}
        </span>
      ) : null}
    </span>
  );
}

function Gpus({ attempt }: { attempt: Attempt | null }) {
  if (!attempt || attempt.gpu_uuids.length === 0) return <span className="dim">–</span>;
  return (
    <span title={attempt.gpu_uuids.join("\n")}>
      <span className="num">{attempt.gpu_uuids.length}</span>{" "}
      <span className="dim">× {shortModel(attempt.gpu_model)}</span>
    </span>
  );
}

function Exit({ attempt }: { attempt: Attempt | null }) {
  if (!attempt) return <span className="dim">–</span>;
  const words = attempt.error_code || exitLabel(attempt);
  if (!words) return <span className="dim">–</span>;
  const about = attempt.diagnosis ? diagnosisTitle(attempt.diagnosis) : attempt.error_message;
  return (
    <span className={isBad(attempt) ? css.bad : "num dim"} title={about || undefined}>
      {words}
    </span>
  );
}

/** The signal that ended a task which was stopped is how it should be. */
function isBad({ state, exit_code, error_code }: Attempt): boolean {
  return error_code !== "" || (exit_code !== 0 && state !== "STOPPED");
}

function Memory({ attempt }: { attempt: Attempt | null }) {
  if (!attempt?.memory_peak_mb) return <span className="dim">–</span>;
  return <span className="num">{formatMegabytes(attempt.memory_peak_mb)}</span>;
}

/** Seconds that the newest attempt of a task has run. */
function runSeconds({ attempt }: Task): number | null {
  if (!attempt?.started_at) return null;
  const end = attempt.finished_at ? Date.parse(attempt.finished_at) : Date.now();
  return Math.round((end - Date.parse(attempt.started_at)) / 1000);
}
