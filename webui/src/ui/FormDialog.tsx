import { Button, Modal } from "@mantine/core";
import type { FormEvent, ReactNode } from "react";
import { explain } from "@/api/errors";
import css from "./FormDialog.module.css";

interface Props {
  open: boolean;
  title: string;
  verb: string;
  busy: boolean;
  /** A refusal that belongs to no single field. */
  error: unknown;
  onClose: () => void;
  onSubmit: () => void;
  children: ReactNode;
}

export function FormDialog(props: Props) {
  const { open, title, verb, busy, error, onClose, onSubmit, children } = props;
  function submit(event: FormEvent) {
    event.preventDefault();
    onSubmit();
  }
  return (
    <Modal opened={open} onClose={onClose} title={title} centered>
      <form onSubmit={submit} className={css.form}>
        {children}
        {error ? (
          <p className={css.error} role="alert">
            {explain(error)}
          </p>
        ) : null}
        <div className={css.actions}>
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" loading={busy}>
            {verb}
          </Button>
        </div>
      </form>
    </Modal>
  );
}
