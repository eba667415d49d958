import { ActionIcon, TagsInput, Tooltip } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { setTags } from "@/api/jobs";
import type { Job } from "@/api/types";
import { TagList } from "@/features/jobs/TagList";
import { Icon } from "@/ui/Icon";
import { notifyError } from "@/ui/notify";
import css from "./TagEditor.module.css";

const MAX_TAGS = 20;
export const TAG = /^[A-Za-z0-9][A-Za-z0-9._:/-]{0,63}$/;

/** The tags of a job, changed in place by those who may stop it. */
export function TagEditor({ job }: { job: Job }) {
  const [draft, setDraft] = useState<string[] | null>(null);
  const saving = useTags(job, () => setDraft(null));
  if (draft === null) {
    return (
      <span className={css.tags}>
        <TagList tags={job.tags} />
        {job.may_stop ? (
          <Tooltip label={job.tags.length > 0 ? "Change the tags" : "Add tags"}>
            <ActionIcon
              size="sm"
              aria-label={job.tags.length > 0 ? "Change the tags" : "Add tags"}
              onClick={() => setDraft(job.tags)}
            >
              <Icon name="tag" size={14} />
            </ActionIcon>
          </Tooltip>
        ) : null}
      </span>
    );
  }
  const wrong = draft.find((tag) => !TAG.test(tag));
  return (
    <span className={css.tags}>
      <TagsInput
        size="xs"
        aria-label="Tags"
        placeholder="Enter ends a tag"
        value={draft}
        onChange={setDraft}
        maxTags={MAX_TAGS}
        splitChars={[",", " "]}
        error={wrong ? `“${wrong}” is no tag: letters, digits, . _ : / -` : undefined}
        autoFocus
        className={css.input}
        classNames={{ inputField: css.field, pill: css.pill }}
      />
      <ActionIcon
        aria-label="Save the tags"
        variant="light"
        color="honey"
        disabled={wrong !== undefined}
        loading={saving.isPending}
        onClick={() => saving.mutate(draft)}
      >
        <Icon name="check" size={14} />
      </ActionIcon>
      <ActionIcon aria-label="Leave the tags as they were" onClick={() => setDraft(null)}>
        <Icon name="cross" size={14} />
      </ActionIcon>
    </span>
  );
}

function useTags(job: Job, onSaved: () => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (tags: string[]) => setTags(job.id, tags),
    onSuccess: async () => {
      void queries.invalidateQueries({ queryKey: ["jobs"] });
      await queries.invalidateQueries({ queryKey: ["job", job.id], exact: true });
      onSaved();
    },
    onError: (error) => notifyError(error, "The tags were not changed"),
  });
}
