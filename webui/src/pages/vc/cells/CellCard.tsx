import { Detail, HoverCard } from "../HoverCard";
import type { Comb } from "./model";
import { stateWords } from "./words";
import css from "./CellCard.module.css";

/** What is known of a cell: what it is, how it is used, where it lies. */
export function CellCard({ comb, place }: { comb: Comb; place: DOMRect }) {
  const words = stateWords(comb);
  return (
    <HoverCard place={place}>
      <strong>{comb.words.charAt(0).toUpperCase() + comb.words.slice(1)}</strong>
      <span className={css.state} data-state={comb.bad > 0 ? "bad" : comb.state}>
        {words.charAt(0).toUpperCase() + words.slice(1)}
      </span>
      {comb.leaf || comb.children ? null : <Detail name="GPUs">click to see each</Detail>}
      <Detail name="Job">{comb.job ? `${comb.job.name} (click to open)` : null}</Detail>
      <Detail name="Pinned">{comb.pin}</Detail>
      <Detail name="Node">{comb.node ?? "gets its place when it is used"}</Detail>
      <Detail name="Place">
        {comb.place ? <span className={css.address}>{comb.place}</span> : null}
      </Detail>
      <Detail name="Cell">
        <span className={css.address}>{comb.id}</span>
      </Detail>
    </HoverCard>
  );
}
