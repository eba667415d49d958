import { useMemo, useState, type PointerEvent } from "react";
import { createPortal } from "react-dom";
import type { Gpu, Node } from "@/api/types";
import { jobOf } from "@/format/others";
import { megabytes } from "@/format/size";
import css from "./GpuCard.module.css";

const WIDTH = 320;

interface Shown {
  gpu: Gpu;
  node: Node;
  /** The cell on the screen. */
  place: DOMRect;
}

/** One listener for thousands of cells: which GPU the pointer is on. */
export function useGpuHover(nodes: Node[]) {
  const [over, setOver] = useState<{ uuid: string; place: DOMRect } | null>(null);
  const byUuid = useMemo(() => {
    const pairs = nodes.flatMap((node) =>
      node.gpus.map((gpu) => [gpu.uuid, { gpu, node }] as const),
    );
    return new Map(pairs);
  }, [nodes]);
  const found = over && byUuid.get(over.uuid);
  return {
    gpu: found ? { ...found, place: over.place } : null,
    listen: {
      onPointerOver: (event: PointerEvent) => {
        const cell = (event.target as Element).closest<HTMLElement>("[data-gpu]");
        const uuid = cell?.dataset["gpu"];
        setOver(cell && uuid ? { uuid, place: cell.getBoundingClientRect() } : null);
      },
      onPointerLeave: () => setOver(null),
      onScroll: () => setOver(null),
    },
  };
}

export function GpuCard({ gpu, node, place }: Shown) {
  const below = place.bottom + 190 < innerHeight;
  const left = Math.min(Math.max(8, place.left - 24), innerWidth - WIDTH - 8);
  const style = below
    ? { top: place.bottom + 8, left, width: WIDTH }
    : { bottom: innerHeight - place.top + 8, left, width: WIDTH };
  return createPortal(
    <div className={css.card} style={style} role="tooltip">
      <p className={css.title}>
        {gpu.model} <span className="dim">GPU {gpu.index}</span>
      </p>
      <p className={css.uuid}>{gpu.uuid}</p>
      {gpu.problem ? <p className={css.bad}>{gpu.problem}</p> : null}
      <dl className={css.facts}>
        <dt>Used by</dt>
        <dd>{userOf(gpu)}</dd>
        {gpu.utilization === null ? null : (
          <>
            <dt>Utilisation</dt>
            <dd className="num">{Math.round(gpu.utilization)}%</dd>
          </>
        )}
        <dt>Memory</dt>
        <dd className="num">
          {gpu.memory_used_mb === null ? "" : `${megabytes(gpu.memory_used_mb)} of `}
          {megabytes(gpu.memory_mb)}
        </dd>
        <dt>Node</dt>
        <dd>{node.name}</dd>
      </dl>
    </div>,
    document.body,
  );
}

function userOf(gpu: Gpu): string {
  if (!gpu.used_by) return gpu.health === "HEALTHY" ? "nobody" : "nobody, and nobody gets it";
  const { job_name, virtual_cluster } = gpu.used_by;
  return job_name ? `${job_name} (${virtual_cluster})` : jobOf(virtual_cluster);
}
