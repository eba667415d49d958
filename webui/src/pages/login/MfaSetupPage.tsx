import { useDocumentTitle } from "@mantine/hooks";
import { useQueryClient } from "@tanstack/react-query";
import { MfaSetup } from "@/features/auth/MfaSetup";
import { live } from "@/live/live";
import { LoginFrame } from "./LoginFrame";

/** All that a user sees who must set up multi-factor authentication. */
export function MfaSetupPage() {
  useDocumentTitle("Multi-factor authentication · Skep");
  const queries = useQueryClient();
  async function enter() {
    await queries.invalidateQueries();
    live.reconnectNow();
  }
  return (
    <LoginFrame name="One more step">
      <p style={{ marginBottom: 14 }}>
        Your administrator asks for a second factor beside the password.
      </p>
      <MfaSetup onDone={enter} />
    </LoginFrame>
  );
}
