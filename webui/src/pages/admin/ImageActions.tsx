import { ActionIcon } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { deleteImage, images } from "@/api/admin";
import type { Image } from "@/api/types";
import { Confirm } from "@/ui/ConfirmButton";
import { Icon } from "@/ui/Icon";
import { tellError } from "@/ui/notify";
import css from "./admin.module.css";

export function ImageActions({ image, onEdit }: { image: Image; onEdit: () => void }) {
  const queries = useQueryClient();
  const [asking, setAsking] = useState(false);
  const deletion = useMutation({
    mutationFn: () => deleteImage(image.name),
    onSuccess: () => queries.invalidateQueries({ queryKey: images.queryKey }),
    onError: (error) => tellError(error, "The image was not deleted"),
  });
  return (
    <span className={css.actions}>
      <ActionIcon size="sm" aria-label={`Edit ${image.name}`} onClick={onEdit}>
        <Icon name="edit" size={14} />
      </ActionIcon>
      <ActionIcon size="sm" aria-label={`Delete ${image.name}`} onClick={() => setAsking(true)}>
        <Icon name="trash" size={14} />
      </ActionIcon>
      <Confirm
        open={asking}
        question={`Delete ${image.name}?`}
        explanation="Job files that use this name are refused from then on. The image itself stays where it is."
        verb="Delete"
        onConfirm={() => deletion.mutate()}
        onClose={() => setAsking(false)}
      />
    </span>
  );
}
