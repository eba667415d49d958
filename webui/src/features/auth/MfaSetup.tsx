import { Button, PasswordInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { errorMessage } from "@/api/errors";
import { confirmMfa, startMfa } from "@/api/session";
import { CopyableCode } from "@/ui/CopyableCode";
import { CodeInput } from "./CodeInput";
import css from "./MfaSetup.module.css";

/** Sets up an authenticator app: the password, the key with a code of it, the recovery codes. */
export function MfaSetup({ onDone }: { onDone: () => unknown }) {
  const [password, setPassword] = useState("");
  const [code, setCode] = useState("");
  const start = useMutation({ mutationFn: () => startMfa(password) });
  const confirmation = useMutation({ mutationFn: () => confirmMfa(code) });
  const codes = confirmation.data?.recovery_codes;
  if (codes) return <RecoveryCodes codes={codes} onDone={onDone} />;

  function submit(event: FormEvent) {
    event.preventDefault();
    if (start.data) confirmation.mutate();
    else start.mutate();
  }

  const step = start.data ? confirmation : start;
  return (
    <form onSubmit={submit} className={css.form}>
      {start.data ? (
        <>
          <p>Scan this code with an authenticator app, or type the key into it.</p>
          <QrCode path={start.data.qr_path} />
          <CopyableCode text={start.data.key} label="Key" />
          <CodeInput
            value={code}
            onChange={setCode}
            autoFocus
            description="Six digits that the app shows now"
          />
        </>
      ) : (
        <PasswordInput
          label="Your password"
          size="sm"
          autoComplete="current-password"
          data-autofocus
          required
          withAsterisk={false}
          value={password}
          onChange={(event) => setPassword(event.currentTarget.value)}
        />
      )}
      {step.error ? (
        <p className={css.error} role="alert">
          {errorMessage(step.error)}
        </p>
      ) : null}
      <Button type="submit" size="sm" loading={step.isPending} fullWidth>
        {start.data ? "Confirm" : "Continue"}
      </Button>
    </form>
  );
}

/** Dark on light in both schemes: many readers know no other. */
function QrCode({ path }: { path: string }) {
  return (
    <svg className={css.qr} viewBox="-6 -6 112 112" role="img" aria-label="QR code of the key">
      <rect x={-6} y={-6} width={112} height={112} fill="#fff" />
      <path d={path} fill="#000" shapeRendering="crispEdges" />
    </svg>
  );
}

/** Codes for the day on which the phone is lost. They are shown once. */
export function RecoveryCodes({ codes, onDone }: { codes: string[]; onDone: () => unknown }) {
  return (
    <div className={css.form}>
      <p>
        Keep these recovery codes where your phone is not. Each logs you in once without the app.
        They are shown only now.
      </p>
      <CopyableCode text={codes.join("\n")} label="Recovery codes" />
      <Button onClick={() => onDone()}>I have kept them</Button>
    </div>
  );
}
