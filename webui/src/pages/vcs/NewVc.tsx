import { TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { createVirtualCluster, virtualClusters } from "@/api/tenancy";
import { FormDialog } from "@/ui/FormDialog";

interface Props {
  open: boolean;
  onClose: () => void;
  onCreated: (name: string) => void;
}

export function NewVc({ open, onClose, onCreated }: Props) {
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
      busy={creation.isPending}
      error={creation.error}
      onClose={onClose}
      onSubmit={() => creation.mutate()}
    >
      <TextInput
        label="Name"
        description="Letters, digits, - and _; it stands in job files"
        required
        withAsterisk={false}
        data-autofocus
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
      />
      <TextInput
        label="Description"
        value={description}
        onChange={(event) => setDescription(event.currentTarget.value)}
      />
    </FormDialog>
  );
}
