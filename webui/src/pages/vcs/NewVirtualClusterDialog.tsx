import { TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { createVirtualCluster, virtualClusters } from "@/api/virtualClusters";
import { FormDialog } from "@/ui/FormDialog";
import { NameInput } from "@/ui/NameInput";

interface Props {
  open: boolean;
  onClose: () => void;
  onCreated: (name: string) => void;
}

export function NewVirtualClusterDialog({ open, onClose, onCreated }: Props) {
  const queries = useQueryClient();
  const [name, setName] = useState("");
  const [description, setDescription] = useState("");
  const creation = useMutation({
    mutationFn: () => createVirtualCluster({ name: name.trim(), description }),
    onSuccess: async (vc) => {
      await queries.invalidateQueries({ queryKey: virtualClusters.queryKey });
      setName("");
      setDescription("");
      onClose();
      onCreated(vc.name);
    },
  });
  return (
    <FormDialog
      open={open}
      title="New virtual cluster"
      verb="Create"
      mutation={creation}
      onClose={onClose}
    >
      <NameInput
        description="Letters, digits, - and _; it stands in job files"
        value={name}
        onChange={setName}
      />
      <TextInput
        label="Description"
        value={description}
        onChange={(event) => setDescription(event.currentTarget.value)}
      />
    </FormDialog>
  );
}
