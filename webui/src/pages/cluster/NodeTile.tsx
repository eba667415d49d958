import { memo } from "react";
import type { Gpu, Node } from "@/api/types";
import { shortModel } from "@/format/names";
import { megabytes } from "@/format/size";
import { Cell, type CellKind } from "./Cell";
import { vcColour, vcOf, type ColourBy } from "./filter";
import { nodeWord } from "./nodeWord";
import css from "./NodeTile.module.css";

interface Props {
  node: Node;
  colourBy: ColourBy;
  /** All virtual clusters, for their colours. */
  names: string[];
  roomy: boolean;
  onOpen: (name: string) => void;
}

export const NodeTile = memo(function NodeTile(props: Props) {
  const { node, colourBy, names, roomy, onOpen } = props;
  const used = node.gpus.filter((gpu) => gpu.used_by).length;
  const away = node.state !== "ONLINE";
  const word = nodeWord(node);
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
          {node.gpus.length > 0 ? `${used}/${node.gpus.length}` : "no GPUs"}
        </span>
      </header>
      {roomy ? <p className={css.about}>{machineWords(node)}</p> : null}
      <div className={css.cells} aria-hidden="true" onClick={() => onOpen(node.name)}>
        {node.gpus.map((gpu) => (
          <span key={gpu.uuid} data-gpu={gpu.uuid}>
            <Cell
              kind={kindOf(gpu)}
              level={colourBy === "use" ? levelOf(gpu) : 100}
              colour={
                colourBy === "vc" && gpu.used_by ? vcColour(vcOf(gpu.used_by), names) : undefined
              }
            />
          </span>
        ))}
      </div>
    </div>
  );
});

function machineWords(node: Node): string {
  const models = [...new Set(node.gpus.map((gpu) => shortModel(gpu.model)))].join(", ");
  const parts = [models, `${node.cpus} CPUs`, megabytes(node.memory_mb), node.address];
  return parts.filter(Boolean).join(" · ");
}

/** How busy it is; nobody is told that of a job which they may not see. */
function levelOf({ utilization, used_by }: Gpu): number {
  return utilization ?? (used_by && !used_by.job_id ? 100 : 0);
}

function kindOf(gpu: Gpu): CellKind {
  if (gpu.health === "BAD") return "bad";
  if (gpu.health === "ABSENT") return "absent";
  return gpu.used_by ? "used" : "free";
}
