import { useMemo } from "react";
import type { Node } from "@/api/types";
import { vcColour, virtualClustersOf, type ColourBy } from "./filter";
import { Cell } from "./Cell";
import css from "./Legend.module.css";

export function Legend({ nodes, colourBy }: { nodes: Node[]; colourBy: ColourBy }) {
  const names = useMemo(() => virtualClustersOf(nodes), [nodes]);
  return (
    <ul className={css.legend} aria-label="Legend">
      <li>
        <Cell kind="free" small /> Free
      </li>
      {colourBy === "use" ? (
        <li>
          <Cell kind="used" small level={20} />
          <Cell kind="used" small level={60} />
          <Cell kind="used" small level={100} /> In use, by utilisation
        </li>
      ) : (
        names.map((name) => (
          <li key={name}>
            <Cell kind="used" small colour={vcColour(name, names)} /> {name}
          </li>
        ))
      )}
      <li>
        <Cell kind="bad" small /> Bad
      </li>
    </ul>
  );
}
