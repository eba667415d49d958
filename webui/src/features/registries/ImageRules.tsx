import { Button, TextInput, Textarea } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { checkImage, imageRules, setImageRules } from "@/api/imageRules";
import { ErrorState } from "@/ui/EmptyState";
import { FormDialog } from "@/ui/FormDialog";
import { SkeletonRows } from "@/ui/Skeleton";
import { notifyError } from "@/ui/notify";
import css from "./RegistryCredentials.module.css";

/** Which images the jobs of a virtual cluster may use, and whether a certain one is among them. */
export function ImageRules({ vc }: { vc: string }) {
  const rules = useQuery(imageRules(vc));
  const [editing, setEditing] = useState(false);
  const patterns = rules.data?.patterns;
  return (
    <section>
      <header className={css.head}>
        <div>
          <h2 className={css.title}>Allowed images</h2>
          <p className="dim">
            Jobs with an image that no pattern matches are refused. Without patterns, every image is
            allowed.
          </p>
        </div>
        <Button variant="default" disabled={!patterns} onClick={() => setEditing(true)}>
          Change the patterns
        </Button>
      </header>
      {rules.isPending ? <SkeletonRows rows={1} /> : null}
      {rules.isError && !patterns ? <ErrorState error={rules.error} what="allowed images" /> : null}
      {patterns?.length === 0 ? <p className={css.none}>Every image is allowed.</p> : null}
      <ul>
        {patterns?.map((pattern) => (
          <li key={pattern} className={css.row}>
            <code>{pattern}</code>
          </li>
        ))}
      </ul>
      <TestImage vc={vc} />
      {editing && patterns ? (
        <PatternsDialog vc={vc} patterns={patterns} onClose={() => setEditing(false)} />
      ) : null}
    </section>
  );
}

function TestImage({ vc }: { vc: string }) {
  const [image, setImage] = useState("");
  const check = useMutation({
    mutationFn: () => checkImage(vc, image.trim()),
    onError: (error) => notifyError(error, "The image was not tested"),
  });
  return (
    <form
      className={css.test}
      onSubmit={(event) => {
        event.preventDefault();
        check.mutate();
      }}
    >
      <TextInput
        label="Test an image against the patterns"
        placeholder="pytorch/pytorch:2.9"
        value={image}
        onChange={(event) => {
          setImage(event.currentTarget.value);
          check.reset();
        }}
      />
      <Button type="submit" variant="default" disabled={!image.trim()} loading={check.isPending}>
        Test
      </Button>
      <p role="status" className={css.result}>
        {check.data ? resultOf(check.data) : null}
      </p>
    </form>
  );
}

function resultOf(found: { allowed: boolean; patterns: string[]; reason: string }): string {
  if (!found.allowed) return `Not allowed. ${found.reason}`;
  return found.patterns.length > 0 ? `Allowed by ${found.patterns.join(", ")}.` : "Allowed.";
}

function PatternsDialog({
  vc,
  patterns,
  onClose,
}: {
  vc: string;
  patterns: string[];
  onClose: () => void;
}) {
  const queries = useQueryClient();
  const [text, setText] = useState(patterns.join("\n"));
  const saving = useMutation({
    mutationFn: () =>
      setImageRules(
        vc,
        text
          .split("\n")
          .map((line) => line.trim())
          .filter(Boolean),
      ),
    onSuccess: () => {
      onClose();
      return queries.invalidateQueries({ queryKey: imageRules(vc).queryKey });
    },
  });
  return (
    <FormDialog open title="Allowed images" verb="Save" mutation={saving} onClose={onClose}>
      <Textarea
        label="Patterns"
        description="One in each line. * stands for any characters: pytorch/*, registry.example.org/vision/*:1.* or NAME@sha256:…. None: every image is allowed."
        rows={8}
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
      />
    </FormDialog>
  );
}
