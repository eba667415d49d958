import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { nodeFaults } from "@/api/cluster";
import type { Node, NodeFault } from "@/api/types";
import { jobOf } from "@/format/others";
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
          <li key={fault.id} className={css.fault}>
            <Ago at={fault.at} />
            <div>
              <b>{fault.name}</b> <span className="dim num">{fault.code}</span>
              <Whose fault={fault} />
              {fault.evidence ? <pre className={css.evidence}>{fault.evidence}</pre> : null}
            </div>
          </li>
        ))}
      </ol>
    </section>
  );
}

function Whose({ fault }: { fault: NodeFault }) {
  const { job_id, job_name, virtual_cluster } = fault;
  if (!job_id) return <> · {jobOf(virtual_cluster)}</>;
  return (
    <>
      {" "}
      ·{" "}
      <Link to="/jobs/$id" params={{ id: job_id }} className="link">
        {job_name}
      </Link>
    </>
  );
}
