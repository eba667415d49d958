import { Button } from "@mantine/core";
import type { FormEvent, ReactNode } from "react";
import { errorMessage } from "@/api/errors";
import { Dialog } from "./Dialog";
import css from "./FormDialog.module.css";

interface Props {
  open: boolean;
  title: string;
  verb: string;
  /** What submitting the form does; its error is shown below the fields. */
  mutation: { isPending: boolean; error: unknown; mutate: () => void };
  onClose: () => void;
  children: ReactNode;
}

export function FormDialog(props: Props) {
  const { open, title, verb, mutation, onClose, children } = props;
  function submit(event: FormEvent) {
    event.preventDefault();
    mutation.mutate();
  }
  return (
    <Dialog opened={open} onClose={onClose} title={title}>
      <form onSubmit={submit} className={css.form}>
        {children}
        {mutation.error ? (
          <p className={css.error} role="alert">
            {errorMessage(mutation.error)}
          </p>
        ) : null}
        <div className={css.actions}>
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" loading={mutation.isPending}>
            {verb}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
