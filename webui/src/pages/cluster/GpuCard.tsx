import { useState, type PointerEvent } from "react";
import { useQuery } from "@tanstack/react-query";
import { node as nodeQuery } from "@/api/cluster";
import type { GridGpu, GridNode } from "@/api/grid";
import type { Gpu } from "@/api/types";
import { hiddenJobLabel } from "@/format/names";
import { formatMegabytes } from "@/format/numbers";
import { HoverCard } from "@/ui/HoverCard";
import css from "./GpuCard.module.css";

const WIDTH = 320;

interface Shown {
  gpu: GridGpu;
  node: GridNode;
  /** Among the GPUs of the node. */
  at: number;
  /** The cell on the screen. */
  place: DOMRect;
}

/** One listener for thousands of cells: which GPU the pointer is on. */
export function useGpuHover(nodes: GridNode[]) {
  const [over, setOver] = useState<{ name: string; at: number; place: DOMRect } | null>(null);
  const node = over ? nodes.find((each) => each.name === over.name) : undefined;
  const gpu = over ? node?.gpus[over.at] : undefined;
  return {
    gpu: over && node && gpu ? { gpu, node, at: over.at, place: over.place } : null,
    listen: {
      onPointerOver: (event: PointerEvent) => {
        const cell = (event.target as Element).closest<HTMLElement>("[data-gpu]");
        const [name, at] = cell?.dataset["gpu"]?.split(" ") ?? [];
        const place = cell?.getBoundingClientRect();
        setOver(name && place ? { name, at: Number(at), place } : null);
      },
      onPointerLeave: () => setOver(null),
      onScroll: () => setOver(null),
    },
  };
}

export function GpuCard({ gpu, node, at, place }: Shown) {
  const { data } = useQuery({ ...nodeQuery(node.name), staleTime: 5000 });
  const whole = data?.gpus[at];
  return (
    <HoverCard place={place} width={WIDTH}>
      <p className={css.title}>
        {gpu.model} <span className="dim">GPU {whole?.index ?? at}</span>
      </p>
      <p className={css.uuid}>{whole?.uuid ?? "…"}</p>
      {whole?.problem ? <p className={css.bad}>{whole.problem}</p> : null}
      <dl className={css.facts}>
        <dt>Used by</dt>
        <dd>{whole ? userOf(whole) : gpu.used ? hiddenJobLabel(gpu.virtualCluster) : "no job"}</dd>
        {typeof whole?.utilization === "number" ? (
          <>
            <dt>Utilisation</dt>
            <dd className="num">{Math.round(whole.utilization)}%</dd>
          </>
        ) : null}
        {whole ? (
          <>
            <dt>Memory</dt>
            <dd className="num">
              {whole.memory_used_mb === null ? "" : `${formatMegabytes(whole.memory_used_mb)} of `}
              {formatMegabytes(whole.memory_mb)}
            </dd>
          </>
        ) : null}
        <dt>Node</dt>
        <dd>{node.name}</dd>
      </dl>
    </HoverCard>
  );
}

function userOf(gpu: Gpu): string {
  if (!gpu.used_by) return gpu.health === "HEALTHY" ? "no job" : "no job, and no job gets it";
  const { job_name, virtual_cluster } = gpu.used_by;
  return job_name ? `${job_name} (${virtual_cluster})` : hiddenJobLabel(virtual_cluster);
}
