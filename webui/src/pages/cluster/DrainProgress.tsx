import { useQuery } from "@tanstack/react-query";
import { nodeForecast } from "@/api/cluster";
import type { Node } from "@/api/types";
import { count } from "@/format/size";
import { UseBar } from "@/ui/UseBar";
import { Affected } from "./Affected";
import css from "./DrainProgress.module.css";

/** Who is still on a node that is being drained. */
export function DrainProgress({ node }: { node: Node }) {
  const { data } = useQuery({ ...nodeForecast(node.name, "drain"), refetchInterval: 2000 });
  const used = node.gpus.filter((gpu) => gpu.used_by).length;
  return (
    <div className={css.progress}>
      <p role="status">
        <b>Draining</b>
        <span className="dim">
          {node.gpus.length - used} of {count(node.gpus.length, "GPU")} free
        </span>
      </p>
      <UseBar
        used={node.gpus.length - used}
        owned={node.gpus.length}
        label={`GPUs of ${node.name} that are free`}
      />
      {data ? (
        <Affected
          forecast={{ ...data, virtual_clusters: [] }}
          title={`${count(data.jobs.length, "job")} still here`}
        />
      ) : null}
    </div>
  );
}
