import { Link } from "@tanstack/react-router";
import type { Attempt, Task } from "@/api/types";
import { exitWords, shortModel, taskName } from "@/format/names";
import { megabytes } from "@/format/size";
import { StateBadge } from "@/ui/StateBadge";
import type { Column } from "@/ui/table/columns";
import { Elapsed } from "@/ui/Time";
import css from "./columns.module.css";

export function taskColumns(job: string, onOpen: (task: Task["id"]) => void): Column<Task>[] {
  return [
    {
      id: "state",
      header: "State",
      width: "150px",
      cell: (task) => <TaskStateCell task={task} />,
      sort: (task) => task.state,
    },
    {
      id: "task",
      header: "Task",
      width: "minmax(130px, 1fr)",
      cell: (task) => (
        <button type="button" className={css.name} onClick={() => onOpen(task.id)}>
          {taskName(task)}
        </button>
      ),
      sort: (task) => taskName(task),
    },
    {
      id: "rank",
      header: "Rank",
      width: "56px",
      align: "end",
      cell: (task) => <span className="num dim">{task.rank}</span>,
      sort: (task) => task.rank,
    },
    {
      id: "node",
      header: "Node",
      width: "minmax(110px, 1fr)",
      cell: (task) => task.attempt?.node ?? <span className="dim">–</span>,
      sort: (task) => task.attempt?.node,
    },
    {
      id: "gpus",
      header: "GPUs",
      width: "minmax(150px, 1.2fr)",
      cell: (task) => <Gpus attempt={task.attempt} />,
      sort: (task) => task.attempt?.gpu_uuids.length,
    },
    {
      id: "attempt",
      header: "Attempt",
      width: "64px",
      align: "end",
      cell: (task) => <span className="num">{task.attempt?.index ?? "–"}</span>,
      sort: (task) => task.attempt?.index,
    },
    {
      id: "exit",
      header: "Exit",
      width: "minmax(110px, 1fr)",
      cell: (task) => <Exit attempt={task.attempt} />,
      sort: (task) => task.attempt?.exit_code,
    },
    {
      id: "memory",
      header: "Peak memory",
      width: "92px",
      align: "end",
      cell: (task) => <Memory attempt={task.attempt} />,
      sort: (task) => task.attempt?.memory_peak_mb,
    },
    {
      id: "duration",
      header: "Ran for",
      width: "80px",
      align: "end",
      cell: (task) => (
        <Elapsed start={task.attempt?.started_at ?? null} end={task.attempt?.finished_at ?? null} />
      ),
      sort: (task) => task.attempt?.started_at,
    },
    {
      id: "logs",
      header: "Logs",
      quiet: true,
      width: "40px",
      align: "end",
      cell: (task) => (
        <Link
          to="/jobs/$id"
          params={{ id: job }}
          search={{ tab: "logs", rank: task.rank }}
          className={css.logs}
          aria-label={`Logs of ${taskName(task)}`}
        >
          Logs
        </Link>
      ),
    },
  ];
}

function TaskStateCell({ task }: { task: Task }) {
  const pulling = task.state === "PREPARING" && task.attempt?.pull_percent;
  return (
    <span className={css.state}>
      <StateBadge state={task.state} />
      {pulling ? <span className="dim num">pulls {pulling}%</span> : null}
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
  const words = attempt.error_code || exitWords(attempt);
  if (!words) return <span className="dim">–</span>;
  return (
    <span
      className={words === "0" ? "num dim" : css.bad}
      title={attempt.error_message || undefined}
    >
      {words}
    </span>
  );
}

function Memory({ attempt }: { attempt: Attempt | null }) {
  if (!attempt?.memory_peak_mb) return <span className="dim">–</span>;
  return <span className="num">{megabytes(attempt.memory_peak_mb)}</span>;
}
