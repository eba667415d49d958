import { Select, Textarea, TextInput } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { me } from "@/api/session";
import { publishTemplate } from "@/api/templates";
import type { Job } from "@/api/types";
import { notifySuccess } from "@/ui/notify";
import { FormDialog } from "@/ui/FormDialog";

const EVERYBODY = "";

/** Publishes the job file of a job for others. */
export function SaveAsTemplate({ job, onClose }: { job: Job; onClose: () => void }) {
  const { data: user } = useQuery(me);
  const navigate = useNavigate();
  const [name, setName] = useState(job.name.replace(/-\d+$/, "").slice(0, 63));
  const [title, setTitle] = useState("");
  const [description, setDescription] = useState("");
  const [vc, setVc] = useState(job.virtual_cluster);
  const saving = useMutation({
    mutationFn: () =>
      publishTemplate({
        name,
        title,
        description,
        text: job.spec_text,
        virtual_cluster: vc === EVERYBODY ? null : vc,
      }),
    onSuccess: async (made) => {
      notifySuccess(`${made.title} is published`);
      await navigate({ to: "/templates/$name", params: { name: made.name } });
    },
  });
  const vcs = user?.virtual_clusters.map((each) => each.name) ?? [job.virtual_cluster];
  return (
    <FormDialog open title="Save as template" verb="Publish" mutation={saving} onClose={onClose}>
      <TextInput
        label="Title"
        description="What it does, in a few words"
        required
        withAsterisk={false}
        maxLength={100}
        data-autofocus
        value={title}
        onChange={(event) => setTitle(event.currentTarget.value)}
      />
      <Textarea
        label="Description"
        description="When to use it, and what to change"
        autosize
        minRows={3}
        maxRows={8}
        maxLength={4000}
        value={description}
        onChange={(event) => setDescription(event.currentTarget.value)}
      />
      <TextInput
        label="Name"
        description="In its address: letters, digits, '-' and '_'"
        required
        withAsterisk={false}
        maxLength={63}
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
      />
      <Select
        label="Who sees it"
        data={[
          ...vcs.map((value) => ({ value, label: `Members of ${value}` })),
          { value: EVERYBODY, label: "Every user" },
        ]}
        value={vc}
        onChange={(value) => setVc(value ?? EVERYBODY)}
        allowDeselect={false}
      />
    </FormDialog>
  );
}
