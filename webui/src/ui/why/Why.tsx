import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { Reason } from "@/api/types";
import { useNow } from "@/format/now";
import { shortModel } from "@/format/names";
import { count } from "@/format/size";
import { about, inAbout } from "@/format/time";
import { Icon } from "../Icon";
import { numbersOf, type Holder, type Numbers } from "./numbers";
import css from "./Why.module.css";

interface Props {
  reason: Reason;
  /** Whose job it is: "team-vision owns". */
  vc: string;
}

/** Why a job waits and until when: one sentence, and the numbers behind it laid out. */
export function Why({ reason, vc }: Props) {
  const numbers = numbersOf(reason);
  return (
    <div className={css.why}>
      <p className={css.sentence}>{reason.message}</p>
      <dl className={css.numbers}>
        <Start start={numbers.expected_start} open={IN_LINE.has(reason.code)} />
        {numbers.needs ? <Needs needs={numbers.needs} /> : null}
        {numbers.owns === null ? null : (
          <Figure name={`${vc} owns`}>{count(numbers.owns, numbers.unit)}</Figure>
        )}
        {numbers.used === null ? null : (
          <Figure name="Used">{numbers.used.toLocaleString("en")}</Figure>
        )}
        {numbers.bad ? (
          <Figure name="Bad">
            <span className={css.bad}>{numbers.bad.toLocaleString("en")}</span>
          </Figure>
        ) : null}
        {numbers.ahead === null ? null : (
          <Figure name="Ahead">{numbers.ahead === 0 ? "none" : count(numbers.ahead, "job")}</Figure>
        )}
        {numbers.used_by.length > 0 ? <Holders numbers={numbers} /> : null}
      </dl>
      {numbers.opportunistic_now ? (
        <p className={css.hint}>
          <Icon name="bolt" size={14} />
          <span>
            It could start now as opportunistic, on cells that nobody uses: with{" "}
            <code>jobPriorityClass: oppo</code>. It then makes room when their owners come.
          </span>
        </p>
      ) : null}
    </div>
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

// Such a job starts one day; others only when something is changed.
const IN_LINE = new Set(["vc_busy", "cluster_busy", "cpu_busy", "memory_busy", "held_back"]);

function Start({ start, open }: { start: number | null; open: boolean }) {
  const now = useNow();
  if (start === null) {
    return open ? (
      <Figure name="Expected start">
        <span className={css.about}>not known</span>
      </Figure>
    ) : null;
  }
  return (
    <Figure name="Expected start">
      <time dateTime={new Date(start).toISOString()}>{about(start, now)}</time>{" "}
      <span className={css.about}>{inAbout(start, now)}</span>
    </Figure>
  );
}

function Needs({ needs }: { needs: NonNullable<Numbers["needs"]> }) {
  const model = needs.model ? shortModel(needs.model) : needs.gpus === 1 ? "GPU" : "GPUs";
  const gpus = needs.gpus ? `${needs.gpus.toLocaleString("en")} ${model}` : "";
  const tasks = needs.tasks ? count(needs.tasks, "task") : "";
  return <Figure name="Needs">{needs.words || [gpus, tasks].filter(Boolean).join(" in ")}</Figure>;
}

function Holders({ numbers: { used_by: holders, more } }: { numbers: Numbers }) {
  return (
    <Figure name="Used by" wide>
      <ul className={css.holders}>
        {holders.map((holder, at) => (
          <HolderWords key={holder.id || at} holder={holder} />
        ))}
        {more > 0 ? <li className="dim">and {count(more, "more job", "more jobs")}</li> : null}
      </ul>
    </Figure>
  );
}

function HolderWords({ holder }: { holder: Holder }) {
  const now = useNow();
  return (
    <li>
      {holder.id ? (
        <Link to="/jobs/$id" params={{ id: holder.id }} className="link">
          {holder.name}
        </Link>
      ) : (
        holder.name
      )}{" "}
      <span className={css.about}>
        {count(holder.gpus, "GPU")},{" "}
        {holder.until === null ? "end not known" : `until about ${about(holder.until, now)}`}
      </span>
    </li>
  );
}
