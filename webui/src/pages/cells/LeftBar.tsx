import type { CheckedAssignment, CellLevel, Chain } from "@/api/types";
import { UseBar } from "@/ui/UseBar";
import { idOf, type Problems } from "./places";
import css from "./LeftBar.module.css";

interface Props {
  chain: Chain;
  level: CellLevel;
  left: CheckedAssignment["left"][number] | undefined;
  problems: Problems;
}

/** How many cells of a type nobody owns yet, whole: the bar fills as they are given away. */
export function LeftBar({ chain, level, left, problems }: Props) {
  const id = idOf({ at: "column", chain: chain.chain, type: level.type });
  const wrong = problems.get(id);
  if (!left) return <span className="dim">–</span>;
  const short = wrong !== undefined || left.left < 0;
  return (
    <div id={id} tabIndex={-1} className={css.left} data-short={short || undefined}>
      <span className="num">
        <b>{Math.max(0, left.left)}</b> <span className="dim">of {left.total}</span>
      </span>
      <UseBar
        used={left.total - left.left}
        owned={left.total}
        label={`${level.words}: given away`}
      />
      {wrong?.map((problem) => (
        <p key={problem.message} className={css.wrong}>
          {problem.message}
        </p>
      ))}
    </div>
  );
}
