import { memo } from "react";
import type { Gpu, Node } from "@/api/types";
import { shortModel } from "@/format/names";
import { megabytes } from "@/format/size";
import { Cell, type CellKind } from "./Cell";
import { vcColour, type ColourBy } from "./filter";
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
              level={colourBy === "use" ? (gpu.utilization ?? 0) : 100}
              colour={
                colourBy === "vc" && gpu.used_by
                  ? vcColour(gpu.used_by.virtual_cluster, names)
                  : undefined
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

function kindOf(gpu: Gpu): CellKind {
  if (gpu.health === "BAD") return "bad";
  if (gpu.health === "ABSENT") return "absent";
  return gpu.used_by ? "used" : "free";
}
