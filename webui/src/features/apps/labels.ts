import type { App } from "@/api/types";

export const TYPES: Record<App["type"], string> = {
  jupyterlab: "JupyterLab",
  "code-server": "VS Code",
  tensorboard: "TensorBoard",
  shell: "Shell",
  web: "Web page",
};

/** What an app is doing, in a sentence. */
export function stateText(app: App): string {
  switch (app.state) {
    case "waiting":
      return "Its job waits for a place, or its container is being started.";
    case "starting":
      return app.problem ? `It does not answer yet: ${app.problem}` : "It does not answer yet.";
    case "ready":
      return "It answers.";
    default:
      return "Its job has ended.";
  }
}
