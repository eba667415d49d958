import { useQuery } from "@tanstack/react-query";
import { nodeFaults } from "@/api/cluster";
import type { Node } from "@/api/types";
import { Ago } from "@/ui/Time";
import css from "./NodeFaults.module.css";

/** Failures of tasks that were this node's doing; nothing where there were none. */
export function NodeFaults({ node }: { node: Node }) {
  const { data: faults } = useQuery(nodeFaults(node.name));
  if (!faults || faults.length === 0) return null;
  return (
    <section aria-label="Faults">
      <h3 className={css.title}>Jobs that failed by its fault</h3>
      <ol className={css.faults}>
        {faults.map((fault) => (
          <li key={`${fault.at} ${fault.name} ${fault.evidence}`} className={css.fault}>
            <Ago at={fault.at} />
            <div>
              <b>{fault.name}</b> <span className="dim num">{fault.code}</span>
              {fault.evidence ? <pre className={css.evidence}>{fault.evidence}</pre> : null}
            </div>
          </li>
        ))}
      </ol>
    </section>
  );
}
