import { queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import type { components } from "./schema";

type Schemas = components["schemas"];

export type Simulation = Schemas["Simulation"];
export type SimulationSummary = Schemas["SimulationSummary"];
export type SimulationOptions = Schemas["SimulationOptions"];
export type SimulationBody = Schemas["SimulationBodyRequest"];
export type SimulatedCluster = Schemas["SimulatedCluster"];
export type SimulatedRun = Schemas["SimulatedRun"];
export type PolicyForecast = Schemas["PolicyForecast"];
export type ChangedJob = Schemas["ChangedJob"];
export type WhatIf = Schemas["WhatIf"];
export type WhatIfSide = Schemas["WhatIfSide"];
export type MovedJob = Schemas["MovedJob"];
export type Placement = Schemas["SimulatedPlacement"];

const REFRESH_MS = 1000;
const LIST_REFRESH_MS = 5000;
const SHOWN = 20;

export function isActive({ state }: { state: SimulationSummary["state"] }): boolean {
  return state === "QUEUED" || state === "RUNNING";
}

export const simulationOptions = queryOptions({
  queryKey: ["simulation-options"],
  queryFn: () => unwrap(client.GET("/api/v1/simulations/options")),
});

export const simulatedCluster = queryOptions({
  queryKey: ["simulated-cluster"],
  queryFn: () => unwrap(client.GET("/api/v1/simulations/cluster")),
});

/** The newest ones that the reader may see. */
export const simulations = queryOptions({
  queryKey: ["simulations"],
  queryFn: () => unwrap(client.GET("/api/v1/simulations", { params: { query: { limit: SHOWN } } })),
  refetchInterval: LIST_REFRESH_MS,
});

export const simulation = (id: string) =>
  queryOptions({
    queryKey: ["simulations", id],
    queryFn: () => unwrap(client.GET("/api/v1/simulations/{id}", { params: { path: { id } } })),
    refetchInterval: ({ state }) => (state.data && isActive(state.data) ? REFRESH_MS : false),
  });

export function createSimulation(body: SimulationBody) {
  return unwrap(client.POST("/api/v1/simulations", { body }));
}

export function stopSimulation(id: string) {
  return unwrap(client.POST("/api/v1/simulations/{id}/stop", { params: { path: { id } } }));
}

export const policyCheck = (name: string, policy: Schemas["PolicyChoiceBodyRequest"]) =>
  queryOptions({
    queryKey: ["policy-check", name, policy],
    queryFn: () =>
      unwrap(
        client.POST("/api/v1/virtual-clusters/{name}/policy/check", {
          params: { path: { name } },
          body: policy,
        }),
      ),
  });

export function forecastPolicy(name: string, policy: Schemas["PolicyChoiceBodyRequest"]) {
  return unwrap(
    client.POST("/api/v1/virtual-clusters/{name}/policy/forecast", {
      params: { path: { name } },
      body: policy,
    }),
  );
}
