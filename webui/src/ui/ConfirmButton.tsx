import { ActionIcon, Button, type ButtonProps } from "@mantine/core";
import { useState, type ReactNode } from "react";
import { Dialog } from "./Dialog";
import { Icon } from "./Icon";
import css from "./ConfirmButton.module.css";

interface Props extends ButtonProps {
  question: string;
  explanation: ReactNode;
  verb: string;
  busy?: boolean;
  onConfirm: () => void;
  children: ReactNode;
}

/** A button for what cannot be undone: it asks first. */
export function ConfirmButton(props: Props) {
  const { question, explanation, verb, busy, onConfirm, children, ...button } = props;
  const [open, setOpen] = useState(false);
  return (
    <>
      <Button variant="default" loading={busy} onClick={() => setOpen(true)} {...button}>
        {children}
      </Button>
      <Confirm
        open={open}
        question={question}
        explanation={explanation}
        verb={verb}
        onConfirm={onConfirm}
        onClose={() => setOpen(false)}
      />
    </>
  );
}

interface DeleteIconProps extends Omit<ConfirmProps, "open" | "onClose"> {
  /** What screen readers call it: "Delete demo". */
  label: string;
  disabled?: boolean;
  busy?: boolean;
  size?: "sm";
}

/** An icon at the end of a row that deletes what the row shows, after a question. */
export function DeleteIcon({ label, disabled, busy, size, ...confirm }: DeleteIconProps) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <ActionIcon
        size={size}
        aria-label={label}
        disabled={disabled}
        loading={busy}
        onClick={() => setOpen(true)}
      >
        <Icon name="trash" size={14} />
      </ActionIcon>
      <Confirm open={open} onClose={() => setOpen(false)} {...confirm} />
    </>
  );
}

interface ConfirmProps {
  open: boolean;
  question: string;
  explanation: ReactNode;
  verb: string;
  onConfirm: () => void;
  onClose: () => void;
}

export function Confirm({ open, question, explanation, verb, onConfirm, onClose }: ConfirmProps) {
  return (
    <Dialog opened={open} onClose={onClose} title={question} size="sm">
      <div className={css.text}>{explanation}</div>
      <div className={css.actions}>
        <Button variant="default" onClick={onClose}>
          Cancel
        </Button>
        <Button
          color="red"
          autoContrast={false}
          data-autofocus
          onClick={() => {
            // The second click of a double one, while the dialog disappears, is none of it.
            if (!open) return;
            onConfirm();
            onClose();
          }}
        >
          {verb}
        </Button>
      </div>
    </Dialog>
  );
}
