import { Button, Checkbox, PasswordInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { explain } from "@/api/errors";
import { changePassword } from "@/api/session";
import { tellDone } from "@/ui/notify";
import css from "./Password.module.css";

export function Password() {
  const [current, setCurrent] = useState("");
  const [next, setNext] = useState("");
  const [keep, setKeep] = useState(false);
  const change = useMutation({
    mutationFn: () => changePassword(current, next, keep),
    onSuccess: () => {
      setCurrent("");
      setNext("");
      tellDone("Your password is changed");
    },
  });
  function submit(event: FormEvent) {
    event.preventDefault();
    change.mutate();
  }
  return (
    <form onSubmit={submit} className={css.form}>
      <h2 className={css.title}>Password</h2>
      <div className={css.fields}>
        <PasswordInput
          label="Present password"
          autoComplete="current-password"
          value={current}
          onChange={(event) => setCurrent(event.currentTarget.value)}
        />
        <PasswordInput
          label="New password"
          autoComplete="new-password"
          value={next}
          onChange={(event) => setNext(event.currentTarget.value)}
        />
        <Button
          type="submit"
          variant="default"
          loading={change.isPending}
          disabled={!current || !next}
        >
          Change
        </Button>
      </div>
      <Checkbox
        mt={10}
        label="Keep my API tokens (other sessions end in any case)"
        checked={keep}
        onChange={(event) => setKeep(event.currentTarget.checked)}
      />
      {change.error ? (
        <p className={css.error} role="alert">
          {explain(change.error)}
        </p>
      ) : null}
    </form>
  );
}
