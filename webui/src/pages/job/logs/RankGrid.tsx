import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { LOG_RANKS, logTails, type RankLog } from "@/api/ranks";
import type { Job } from "@/api/types";
import { isFinished } from "@/features/jobs/permissions";
import { taskName } from "@/format/names";
import { usePoll } from "@/live/live";
import { EmptyState } from "@/ui/EmptyState";
import { Icon } from "@/ui/Icon";
import { QueryState } from "@/ui/QueryState";
import { StateIcon } from "@/ui/StateIcon";
import { stateLabel } from "@/ui/StateBadge";
import { plainText } from "./ansi";
import css from "./RankGrid.module.css";

interface Props {
  job: Job;
  first: number;
  attempt: number | undefined;
}

/** The last lines of 16 tasks side by side: which of them is behind, and what it said last. */
export function RankGrid({ job, first, attempt }: Props) {
  const navigate = useNavigate({ from: "/jobs/$id" });
  const poll = usePoll(5000);
  const tails = useQuery({
    ...logTails(job.id, first, attempt),
    refetchInterval: isFinished(job.state) ? false : poll,
  });
  const go = (part: { view?: "ranks" | undefined; first?: number }) =>
    void navigate({ search: (old) => ({ ...old, ...part }), replace: true });
  const last = Math.min(first + LOG_RANKS, job.tasks);
  return (
    <div className={css.pane}>
      <div className={css.tools} role="toolbar" aria-label="Logs by rank">
        <Button
          variant="default"
          leftSection={<Icon name="left" size={14} />}
          onClick={() => go({ view: undefined, first: undefined })}
        >
          Merged log
        </Button>
        <span className="dim">
          Last lines of ranks {first} to {last - 1} of {job.tasks.toLocaleString("en")}
        </span>
        {job.tasks > LOG_RANKS ? (
          <span className={css.pages}>
            <Button
              variant="subtle"
              color="gray"
              disabled={first === 0}
              onClick={() => go({ first: Math.max(0, first - LOG_RANKS) })}
            >
              Previous
            </Button>
            <Button
              variant="subtle"
              color="gray"
              disabled={last >= job.tasks}
              onClick={() => go({ first: last })}
            >
              Next
            </Button>
          </span>
        ) : null}
      </div>
      <QueryState query={tails} what="last lines" rows={8}>
        {({ ranks }) =>
          ranks.length === 0 ? (
            <EmptyState title="No task here">None of these tasks was placed yet.</EmptyState>
          ) : (
            <ul className={css.grid} aria-label="Last lines by rank">
              {ranks.map((rank) => (
                <Tile key={rank.rank} job={job} rank={rank} attempt={attempt} />
              ))}
            </ul>
          )
        }
      </QueryState>
    </div>
  );
}

interface TileProps {
  job: Job;
  rank: RankLog;
  attempt: number | undefined;
}

function Tile({ job, rank, attempt }: TileProps) {
  return (
    <li className={css.tile}>
      <header>
        <StateIcon state={rank.state} size={13} />
        <span className="sr-only">{stateLabel(rank.state)}</span>
        <Link
          to="/jobs/$id"
          params={{ id: job.id }}
          search={{ tab: "logs", rank: rank.rank, attempt }}
          className="link"
        >
          {taskName(rank)}
        </Link>
        <span className={css.node} title={rank.node}>
          {rank.node}
        </span>
      </header>
      <pre>
        {rank.lines.length > 0 ? (
          rank.lines.map(plainText).join("\n")
        ) : (
          <i>Nothing was written yet.</i>
        )}
      </pre>
    </li>
  );
}
