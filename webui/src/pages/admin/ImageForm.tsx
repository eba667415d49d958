import { MultiSelect, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { createImage, images, updateImage } from "@/api/admin";
import { virtualClusters } from "@/api/tenancy";
import type { ImageBody } from "@/api/types";
import { FormDialog } from "@/ui/FormDialog";

/** A new image when it has no name yet, else a change of this one. */
export function ImageForm({ image, onClose }: { image: ImageBody; onClose: () => void }) {
  const queries = useQueryClient();
  const { data: vcs } = useQuery(virtualClusters);
  const { name, reference, description, virtual_clusters = [] } = image;
  const [draft, setDraft] = useState({ name, reference, description, virtual_clusters });
  const known = name !== "";
  const saving = useMutation({
    mutationFn: () => {
      const { name: fresh, ...change } = draft;
      return known ? updateImage(name, change) : createImage({ name: fresh, ...change });
    },
    onSuccess: () => {
      onClose();
      return queries.invalidateQueries({ queryKey: images.queryKey });
    },
  });
  const text = (field: "name" | "reference" | "description") => ({
    value: draft[field],
    onChange: (event: React.ChangeEvent<HTMLInputElement>) =>
      setDraft({ ...draft, [field]: event.currentTarget.value }),
  });
  return (
    <FormDialog
      open
      title={known ? `Edit ${name}` : "Add an image"}
      verb={known ? "Save" : "Add"}
      busy={saving.isPending}
      error={saving.error}
      onClose={onClose}
      onSubmit={() => saving.mutate()}
    >
      <TextInput
        label="Name"
        description="What job files write as the uri"
        required
        withAsterisk={false}
        disabled={known}
        {...text("name")}
      />
      <TextInput
        label="Reference"
        description="What the nodes pull, for example pytorch/pytorch:2.9"
        required
        withAsterisk={false}
        {...text("reference")}
      />
      <TextInput label="Description" {...text("description")} />
      <MultiSelect
        label="Virtual clusters"
        description="None chosen: everybody may use it"
        data={(vcs ?? []).map((vc) => vc.name)}
        value={draft.virtual_clusters}
        onChange={(chosen) => setDraft({ ...draft, virtual_clusters: chosen })}
        clearable
      />
    </FormDialog>
  );
}
