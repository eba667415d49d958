import { memo } from "react";
import type { Gpu, Node } from "@/api/types";
import { Cell, type CellKind } from "./Cell";
import { vcColour, type ColourBy } from "./filter";
import { nodeWord } from "./nodeWord";
import css from "./NodeTile.module.css";

interface Props {
  node: Node;
  colourBy: ColourBy;
  /** All virtual clusters, for their colours. */
  names: string[];
  onOpen: (name: string) => void;
}

export const NodeTile = memo(function NodeTile({ node, colourBy, names, onOpen }: Props) {
  const used = node.gpus.filter((gpu) => gpu.used_by).length;
  const away = node.state !== "ONLINE";
  const word = nodeWord(node);
  return (
    <article
      role="listitem"
      className={css.tile}
      data-away={away || undefined}
      data-state={node.state}
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
    </article>
  );
});

function kindOf(gpu: Gpu): CellKind {
  if (gpu.health === "BAD") return "bad";
  if (gpu.health === "ABSENT") return "absent";
  return gpu.used_by ? "used" : "free";
}
