import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type {
  ForecastReason,
  SchedulingDetails,
  UsingJob,
  WaitReason as Reason,
} from "@/api/types";
import { pluralize } from "@/format/numbers";
import { formatExpectedTime, formatTimeUntil } from "@/format/time";
import { useNow } from "@/format/useNow";
import { Icon } from "@/ui/Icon";
import css from "./WaitReason.module.css";

interface Props {
  reason: Reason | ForecastReason;
  /** Whose job it is: "team-vision owns". */
  vc: string;
  /** Between which moments it starts in 80 % of the cases (seconds since the epoch), if known. */
  interval?: [number, number] | undefined;
  /** Its sentence stands elsewhere. */
  withoutSentence?: boolean;
  /** What can be done about it. */
  children?: ReactNode;
}

/** Explains why a job waits and until when: one sentence, and the numbers behind it. */
export function WaitReason({ reason, vc, interval, withoutSentence, children }: Props) {
  // A reason of the platform, or of a newer server, has other details: its sentence stands alone.
  const numbers = "needs" in reason.details ? reason.details : null;
  return (
    <div className={css.reason}>
      {withoutSentence ? null : <p className={css.sentence}>{reason.message}</p>}
      <dl className={css.numbers}>
        {"expected_start" in reason.details ? (
          <ExpectedStart
            at={reason.details.expected_start}
            interval={interval ?? intervalOf(reason.details)}
            startsUnaided={STARTS_UNAIDED.has(reason.code)}
          />
        ) : null}
        {numbers ? (
          <Numbers
            numbers={numbers}
            of={OF_CLUSTER.has(reason.code) ? "Cluster has" : `${vc} owns`}
          />
        ) : null}
      </dl>
      {numbers?.opportunistic_now ? (
        <p className={css.hint}>
          <Icon name="bolt" size={14} />
          <span>
            It could start now as opportunistic, on cells that no job uses: with{" "}
            <code>jobPriorityClass: oppo</code>. It is then preempted when their owners need them.
          </span>
        </p>
      ) : null}
      {children}
    </div>
  );
}

/** Codes of opportunistic jobs: their numbers are those of the whole cluster. */
const OF_CLUSTER = new Set<string>([
  "cluster_busy",
  "never_fits_cluster",
] satisfies Reason["code"][]);

/** Codes of jobs that start without any action; with other codes a person has to change something. */
const STARTS_UNAIDED = new Set<string>([
  "no_size",
  "vc_busy",
  "cluster_busy",
  "cpu_busy",
  "memory_busy",
  "held_back",
] satisfies Reason["code"][]);

/** `at` in seconds since the epoch. */
function ExpectedStart({
  at,
  interval,
  startsUnaided,
}: {
  at: number | null;
  interval: [number, number] | undefined;
  startsUnaided: boolean;
}) {
  const now = useNow();
  if (interval) {
    const [low, high] = interval.map((second) =>
      formatExpectedTime(Math.max(second * 1000, now), now),
    );
    return (
      <Figure name="Expected start">
        {low === high ? `about ${high}` : `between ${low} and ${high}`}{" "}
        <span className={css.dimmed}>in 80 % of cases</span>
      </Figure>
    );
  }
  if (at === null) {
    return startsUnaided ? (
      <Figure name="Expected start">
        <span className={css.dimmed}>unknown</span>
      </Figure>
    ) : null;
  }
  const start = at * 1000;
  return (
    <Figure name="Expected start">
      <time dateTime={new Date(start).toISOString()}>{formatExpectedTime(start, now)}</time>{" "}
      <span className={css.dimmed}>{formatTimeUntil(start, now)}</span>
    </Figure>
  );
}

/** That of a dry run. */
function intervalOf(details: object): [number, number] | undefined {
  const found = "expected_interval" in details ? details.expected_interval : undefined;
  return Array.isArray(found) && found.length === 2 ? [found[0], found[1]] : undefined;
}

function Numbers({ numbers, of }: { numbers: SchedulingDetails; of: string }) {
  const { needs, nodes, used_by: users, more, ahead } = numbers;
  const inNodes = needs.whole_nodes && nodes.owns > 0;
  const { owns, used, bad } = inNodes ? nodes : numbers;
  const unit = inNodes ? "node" : "GPU";
  return (
    <>
      <Figure name="Needs">{needs.shape}</Figure>
      <Figure name={of}>{pluralize(owns, unit)}</Figure>
      <Figure name="Used">{pluralize(used, unit)}</Figure>
      {bad > 0 ? (
        <Figure name="Bad">
          <span className={css.bad}>{pluralize(bad, unit)}</span>
        </Figure>
      ) : null}
      <Figure name="Ahead">{ahead === 0 ? "none" : pluralize(ahead, "job")}</Figure>
      {users.length > 0 ? (
        <Figure name="Used by" wide>
          <ul className={css.users}>
            {users.map((user, at) => (
              <User key={user.gang ?? at} user={user} />
            ))}
            {more > 0 ? (
              <li className="dim">and {pluralize(more, "more job", "more jobs")}</li>
            ) : null}
          </ul>
        </Figure>
      ) : null}
    </>
  );
}

function User({ user: { gang, name, gpus, until } }: { user: UsingJob }) {
  const now = useNow();
  const end =
    until === null ? "end unknown" : `until about ${formatExpectedTime(until * 1000, now)}`;
  return (
    <li>
      {gang ? (
        <Link to="/jobs/$id" params={{ id: gang }} className="link">
          {name}
        </Link>
      ) : (
        (name ?? "another job")
      )}{" "}
      <span className={css.dimmed}>
        {pluralize(gpus, "GPU")}, {end}
      </span>
    </li>
  );
}

function Figure({ name, wide, children }: { name: string; wide?: boolean; children: ReactNode }) {
  return (
    <div data-wide={wide || undefined}>
      <dt>{name}</dt>
      <dd className="num">{children}</dd>
    </div>
  );
}
