import { Select, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { node as nodeQuery } from "@/api/cluster";
import { grid, type GridNode } from "@/api/grid";
import type { Chain, Node } from "@/api/types";
import { FormDialog } from "@/ui/FormDialog";
import { unreadText } from "@/ui/ReadNote";
import { compareNames } from "@/format/names";
import type { Pin } from "./draft";

interface Props {
  open: boolean;
  chains: Chain[];
  vcs: string[];
  taken: string[];
  onClose: () => void;
  onAdd: (pin: Pin) => void;
}

const EMPTY: Pin = { name: "", cell_type: "", node: "", device: "", vc: "" };

/** Names the cell of a type that contains a node, or below node level, a GPU. */
export function NewPinDialog({ open, chains, vcs, taken, onClose, onAdd }: Props) {
  const [pin, setPin] = useState(EMPTY);
  const all = useQuery({ ...grid, enabled: open });
  const { data: machine } = useQuery({ ...nodeQuery(pin.node), enabled: pin.node !== "" });
  const chain = chains.find((each) => each.levels.some((level) => level.type === pin.cell_type));
  const level = chain?.levels.find((each) => each.type === pin.cell_type);
  const nodeLevel = chain?.levels.find((each) => each.is_node)?.level ?? 0;
  const inside = level !== undefined && level.level < nodeLevel;
  const double = taken.includes(pin.name);
  const complete = pin.name && pin.cell_type && pin.node && (!inside || pin.device) && !double;

  function add() {
    if (!complete) return;
    onAdd(inside ? pin : { ...pin, device: "" });
    onClose();
  }

  return (
    <FormDialog
      open={open}
      title="Pin a cell"
      verb="Pin it"
      mutation={{ isPending: false, error: null, mutate: add }}
      onClose={onClose}
    >
      <TextInput
        label="Name"
        description="What job files write as pinnedCellId"
        required
        withAsterisk={false}
        data-autofocus
        value={pin.name}
        error={double ? "There is one of this name" : null}
        onChange={(event) => setPin({ ...pin, name: event.currentTarget.value.trim() })}
      />
      <Select
        label="Cell"
        required
        withAsterisk={false}
        data={typeOptions(chains)}
        value={pin.cell_type || null}
        onChange={(type) => setPin({ ...pin, cell_type: type ?? "", node: "", device: "" })}
      />
      <Select
        label={level && level.level > nodeLevel ? "The one that contains" : "On node"}
        required
        withAsterisk={false}
        searchable
        disabled={!chain}
        data={namesWith(all.data?.nodes ?? [], chain)}
        error={unreadText(all, "list of nodes")}
        limit={100}
        value={pin.node || null}
        onChange={(node) => setPin({ ...pin, node: node ?? "", device: "" })}
      />
      {inside ? (
        <Select
          label="The one that contains GPU"
          required
          withAsterisk={false}
          disabled={!pin.node}
          data={gpuOptions(machine)}
          value={pin.device || null}
          onChange={(device) => setPin({ ...pin, device: device ?? "" })}
        />
      ) : null}
      <Select
        label="Belongs to"
        placeholder="No owner yet"
        data={vcs}
        value={pin.vc || null}
        onChange={(vc) => setPin({ ...pin, vc: vc ?? "" })}
        clearable
      />
    </FormDialog>
  );
}

function typeOptions(chains: Chain[]) {
  return chains.flatMap((chain) =>
    chain.levels
      .toSorted((a, b) => b.level - a.level)
      .map((level) => ({ value: level.type, label: level.words })),
  );
}

function gpuOptions(node: Node | undefined) {
  return (node?.gpus ?? []).map((gpu) => ({
    value: gpu.uuid,
    label: `${gpu.index}: ${gpu.uuid}`,
  }));
}

function namesWith(nodes: GridNode[], chain: Chain | undefined): string[] {
  const fit = nodes.filter((node) => node.gpus.some((gpu) => gpu.model === chain?.gpu_model));
  return fit.map((node) => node.name).sort(compareNames);
}
