import { count } from "@/format/size";
import { Detail, HoverCard } from "../HoverCard";
import { isLate, type Bar } from "./bars";
import { nameOf } from "./JobName";
import { barWords } from "./words";

/** What the time line knows of one job. */
export function BarCard({ bar, place, now }: { bar: Bar; place: DOMRect; now: number }) {
  const { job, nodes, position, opportunistic } = bar;
  const words = barWords(bar, now);
  return (
    <HoverCard place={place}>
      <strong>{nameOf(job)}</strong>
      <span>
        {words.charAt(0).toUpperCase() + words.slice(1)}
        {isLate(bar, now) ? "; it takes longer than expected" : ""}
      </span>
      {job.preempting ? <span>It is asked to make room for another job.</span> : null}
      {job.downgraded ? <span>It was guaranteed: {job.downgraded.message}</span> : null}
      <Detail name="Owner">{job.owner}</Detail>
      <Detail name="Size">
        {count(job.gpus, "GPU")} in {count(job.tasks, "task")}
      </Detail>
      <Detail name="Priority">
        {job.priority_class} {job.priority}
        {opportunistic ? ", opportunistic" : ""}
      </Detail>
      <Detail name="Position">{position === null ? null : `${position} in the queue`}</Detail>
      <Detail name="Nodes">{nodes.join(", ")}</Detail>
    </HoverCard>
  );
}
