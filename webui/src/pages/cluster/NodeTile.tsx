import { memo } from "react";
import type { GridGpu, GridNode } from "@/api/grid";
import type { Node } from "@/api/types";
import { shortModel } from "@/format/names";
import { formatMegabytes, pluralize } from "@/format/numbers";
import { GpuCell, type GpuCellKind } from "./GpuCell";
import { vcColour, vcOf, type ColourBy } from "./filter";
import { nodeStatusLabel } from "./labels";
import css from "./NodeTile.module.css";

interface Props {
  node: GridNode;
  /** Percent of each GPU, once it is known. */
  use: (number | null)[] | undefined;
  /** The machine, where tiles are roomy. */
  machine: Node | undefined;
  colourBy: ColourBy;
  /** All virtual clusters, for their colours. */
  names: string[];
  roomy: boolean;
  onOpen: (name: string) => void;
}

export const NodeTile = memo(function NodeTile(props: Props) {
  const { node, use, machine, colourBy, names, roomy, onOpen } = props;
  const used = node.gpus.filter((gpu) => gpu.used).length;
  const away = node.state !== "ONLINE";
  const word = nodeStatusLabel(node);
  return (
    <div
      role="listitem"
      className={css.tile}
      data-away={away || undefined}
      data-state={node.state}
      data-roomy={roomy || undefined}
    >
      <header className={css.head}>
        <button
          type="button"
          className={css.name}
          onClick={() => onOpen(node.name)}
          aria-label={`${node.name}: ${word ?? "online"}, ${used} of ${node.gpus.length} GPUs in use`}
        >
          {node.name}
        </button>
        {word ? <span className={css.word}>{word}</span> : null}
        <span className={css.used}>
          {node.gpus.length === 0
            ? "no GPUs"
            : roomy
              ? `${used} of ${node.gpus.length} in use`
              : `${used}/${node.gpus.length}`}
        </span>
      </header>
      {roomy ? <p className={css.about}>{machineSummary(node, machine)}</p> : null}
      <div className={css.cells} aria-hidden="true" onClick={() => onOpen(node.name)}>
        {node.gpus.map((gpu, at) => (
          <span key={at} data-gpu={`${node.name} ${at}`}>
            <GpuCell
              kind={kindOf(gpu, node)}
              level={colourBy === "use" ? levelOf(gpu, use?.[at]) : 100}
              colour={colourBy === "vc" && gpu.used ? vcColour(vcOf(gpu), names) : undefined}
            />
          </span>
        ))}
      </div>
    </div>
  );
});

function machineSummary({ gpus }: GridNode, machine: Node | undefined): string {
  const models = [...new Set(gpus.map((gpu) => shortModel(gpu.model)))].join(", ");
  if (!machine) return models;
  const { cpus, memory_mb, address } = machine;
  return [models, pluralize(cpus, "CPU"), formatMegabytes(memory_mb), address]
    .filter(Boolean)
    .join(" · ");
}

/** How busy it is; a job that the reader may not see has no figures and counts as busy. */
function levelOf({ used }: GridGpu, percent: number | null | undefined): number {
  return percent ?? (used ? 100 : 0);
}

function kindOf(gpu: GridGpu, { cordoned }: GridNode): GpuCellKind {
  if (gpu.bad) return "bad";
  if (gpu.used) return "used";
  return cordoned ? "cordoned" : "free";
}
