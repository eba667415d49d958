import { SegmentedControl, Select, TextInput } from "@mantine/core";
import { useMemo } from "react";
import type { GridNode } from "@/api/grid";
import { shortModel } from "@/format/names";
import { Icon } from "@/ui/Icon";
import { Legend } from "@/ui/Legend";
import { GpuCell } from "./GpuCell";
import {
  type ColourBy,
  hasProblem,
  type NodeFilter,
  type Show,
  vcColour,
  virtualClustersOf,
} from "./filter";
import css from "./ClusterToolbar.module.css";

interface Props {
  nodes: GridNode[];
  filter: NodeFilter;
  onFilter: (filter: NodeFilter) => void;
  colourBy: ColourBy;
  onColourBy: (by: ColourBy) => void;
}

export function ClusterToolbar({ nodes, filter, onFilter, colourBy, onColourBy }: Props) {
  const problems = nodes.filter(hasProblem).length;
  const models = useMemo(
    () => [...new Set(nodes.flatMap((node) => node.gpus.map((gpu) => gpu.model)))].sort(),
    [nodes],
  );
  return (
    <search className={css.bar} aria-label="Filter nodes">
      <TextInput
        type="search"
        aria-label="Search nodes by name"
        placeholder="Search nodes  ( / )"
        leftSection={<Icon name="search" size={14} />}
        value={filter.text}
        onChange={(event) => onFilter({ ...filter, text: event.currentTarget.value })}
        w={190}
      />
      <Select
        aria-label="Which nodes"
        value={filter.show}
        onChange={(show) => onFilter({ ...filter, show: show as Show })}
        allowDeselect={false}
        data={[
          { value: "all", label: "All nodes" },
          { value: "free", label: "With free GPUs" },
          { value: "problems", label: `With problems (${problems})` },
          { value: "cordoned", label: "Cordoned" },
        ]}
        w={160}
      />
      {models.length > 1 ? (
        <Select
          aria-label="GPU model"
          placeholder="Any GPU model"
          value={filter.model}
          onChange={(model) => onFilter({ ...filter, model })}
          data={models.map((model) => ({ value: model, label: shortModel(model) }))}
          clearable
          w={170}
        />
      ) : null}
      <SegmentedControl
        aria-label="Colour by"
        value={colourBy}
        onChange={(by) => onColourBy(by as ColourBy)}
        data={[
          { value: "use", label: "Utilisation" },
          { value: "vc", label: "Virtual cluster" },
        ]}
      />
      <GridLegend nodes={nodes} colourBy={colourBy} />
    </search>
  );
}

function GridLegend({ nodes, colourBy }: { nodes: GridNode[]; colourBy: ColourBy }) {
  const names = useMemo(() => virtualClustersOf(nodes), [nodes]);
  return (
    <Legend>
      <li>
        <GpuCell kind="free" small /> Free
      </li>
      {colourBy === "use" ? (
        <li>
          <GpuCell kind="used" small level={20} />
          <GpuCell kind="used" small level={60} />
          <GpuCell kind="used" small level={100} /> In use, by utilisation
        </li>
      ) : (
        names.map((name) => (
          <li key={name}>
            <GpuCell kind="used" small colour={vcColour(name, names)} /> {name}
          </li>
        ))
      )}
      {nodes.some((node) => node.cordoned) ? (
        <li>
          <GpuCell kind="cordoned" small /> Not in use, on a cordoned node
        </li>
      ) : null}
      <li>
        <GpuCell kind="bad" small /> Bad
      </li>
    </Legend>
  );
}
