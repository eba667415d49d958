// Calls every method of the clients of OpenPAI's JavaScript SDK, of both versions, and prints as
// JSON: `found`, what each gave: {value} or {error: {code, status}}; `methods`, all that its classes
// have; `called`, those of them that ran.

const fs = require("fs");
const path = require("path");
const sdk = require("@microsoft/openpai-js-sdk");

const methods = [];
const called = new Set();

// Every class that a file of the SDK exports, not only those that its index does.
function record(version) {
  const folder = path.join(path.dirname(require.resolve("@microsoft/openpai-js-sdk")), "api", version, "clients");
  const classes = new Set();
  for (const file of fs.readdirSync(folder).filter((name) => name.endsWith(".js"))) {
    for (const one of Object.values(require(path.join(folder, file)))) {
      if (typeof one === "function") classes.add(one);
    }
  }
  for (const one of classes) {
    for (const name of Object.getOwnPropertyNames(one.prototype)) {
      const method = one.prototype[name];
      if (name === "constructor" || typeof method !== "function") continue;
      const full = `${version} ${one.name}.${name}`;
      methods.push(full);
      const recorded = function (...args) {
        called.add(full);
        return method.apply(this, args);
      };
      one.prototype[name] = Object.defineProperty(recorded, "name", { value: name });
    }
  }
}
record("v1");
record("v2");

const job = (name, virtualCluster = "vision") => ({
  protocolVersion: 2,
  name,
  type: "job",
  prerequisites: [{ type: "dockerimage", name: "image", uri: "test/image:1" }],
  taskRoles: {
    worker: {
      dockerImage: "image",
      resourcePerInstance: { gpu: 1, cpu: 1, memoryMB: 1024 },
      commands: ["true"],
    },
  },
  defaults: { virtualCluster },
});

// As version 1 describes a job.
const oldJob = (jobName) => ({
  jobName,
  image: "test/image:1",
  codeDir: "",
  outputDir: "",
  virtualCluster: "vision",
  taskRoles: [
    { name: "worker", taskNumber: 2, cpuNumber: 1, gpuNumber: 1, memoryMB: 1024, command: "true" },
  ],
});

// Version 1 throws what the library for HTTP throws: the body as text, or parsed.
function codeOf(error, data) {
  try {
    const body = typeof error.error === "string" ? JSON.parse(error.error) : error.error;
    if (body && body.code) return body.code;
  } catch {
    // no JSON
  }
  return data.code ?? error.code ?? String(error).slice(0, 300);
}

async function main() {
  const server = { pai_uri: process.env.PAI_URI, https: false };
  const as = (username) => ({ ...server, username, password: process.env.PAI_PASSWORD });
  const found = {};
  const call = async (name, what) => {
    try {
      found[name] = { value: (await what()) ?? null };
    } catch (error) {
      const data = error.data ?? {};
      found[name] = {
        error: {
          code: codeOf(error, data),
          status: error.status ?? error.statusCode ?? null,
        },
      };
    }
  };
  const v2 = sdk.PAIV2.OpenPAIClient;
  const alice = new v2(as("alice"));
  const root = new v2(as("root"));

  await call("api.getClusterInfo", () => alice.api.getClusterInfo());
  await call("authn.basicLogin", () => alice.authn.basicLogin("alice", process.env.PAI_PASSWORD, 600));
  await call("authn.wrongPassword", () => alice.authn.basicLogin("alice", "wrong", 600));
  await call("authn.oidcLogin", () => alice.authn.oidcLogin());
  await call("authn.oidcLogout", () => alice.authn.oidcLogout());
  await call("job.createJob", () => alice.job.createJob(job("one")));
  await call("job.again", () => alice.job.createJob(job("one")));
  await call("job.listJobs", () => alice.job.listJobs({ username: "alice", limit: 10 }));
  await call("job.counted", () => alice.job.listJobs({ withTotalCount: true, order: "jobName,ASC" }));
  await call("job.getJob", () => alice.job.getJob("alice", "one"));
  await call("job.getJobAttempt", () => alice.job.getJob("alice", "one", 0));
  await call("job.missing", () => alice.job.getJob("alice", "none"));
  await call("job.getJobConfig", () => alice.job.getJobConfig("alice", "one"));
  await call("job.addTag", () => alice.job.addTag("alice", "one", "night"));
  await call("job.deleteTag", () => alice.job.deleteTag("alice", "one", "night"));
  await call("job.getTask", () => alice.job.getTask("alice", "one", 0, "worker", 0));
  await call("job.getTaskLogs", () => alice.job.getTaskLogs("alice", "one", 0, "worker", 0, 0, true));
  await call("job.listEvents", () => alice.job.listEvents("alice", "one"));
  await call("jobHistory.getJobAttemptsHealthz", () =>
    alice.jobHistory.getJobAttemptsHealthz("alice", "one"),
  );
  await call("jobHistory.getJobAttempts", () => alice.jobHistory.getJobAttempts("alice", "one"));
  await call("jobHistory.getJobAttempt", () => alice.jobHistory.getJobAttempt("alice", "one", 0));
  await call("job.updateJobExecutionType", () =>
    alice.job.updateJobExecutionType("alice", "one", "STOP"),
  );
  await call("job.stopped", () => alice.job.getJob("alice", "one"));
  await call("virtualCluster.listVirtualClusters", () => alice.virtualCluster.listVirtualClusters());
  await call("virtualCluster.getVirtualCluster", () =>
    alice.virtualCluster.getVirtualCluster("vision"),
  );
  await call("virtualCluster.getVirtualClusterSkuTypes", () =>
    alice.virtualCluster.getVirtualClusterSkuTypes("vision"),
  );
  await call("storage.getStorages", () => alice.storage.getStorages());
  await call("storage.getStorage", () => alice.storage.getStorage("team"));
  await call("token.getTokens", () => alice.token.getTokens());
  await call("token.createApplicationToken", () => alice.token.createApplicationToken());
  const made = found["token.createApplicationToken"].value;
  await call("token.deleteToken", () => alice.token.deleteToken(made ? made.token : "none"));

  const user = { username: "bob", password: process.env.PAI_PASSWORD, virtualCluster: ["vision"] };
  const group = { groupname: "lab", description: "", externalName: "", extension: {} };
  await call("user.createUser", () => root.user.createUser(user));
  await call("user.getAllUser", () => root.user.getAllUser());
  await call("user.getUser", () => root.user.getUser("bob"));
  await call("user.updateUser", () => root.user.updateUser({ username: "bob", email: "b@c.org" }));
  await call("user.updateUserSelf", () => alice.user.updateUserSelf({ username: "alice" }));
  await call("group.createGroup", () => root.group.createGroup(group));
  await call("group.getAllGroup", () => root.group.getAllGroup());
  await call("group.getGroup", () => root.group.getGroup("lab"));
  await call("group.updateGroup", () =>
    root.group.updateGroup({ data: { groupname: "lab", description: "x" }, patch: true }),
  );
  await call("user.updateUserGroup", () => root.user.updateUserGroup("bob", "lab"));
  await call("group.getGroupMembers", () => root.group.getGroupMembers("lab"));
  await call("user.deleteUserGroup", () => root.user.deleteUserGroup("bob", "lab"));
  await call("user.updateUserGrouplist", () => root.user.updateUserGrouplist("bob", ["lab"]));
  await call("group.deleteGroup", () => root.group.deleteGroup("lab"));
  await call("user.deleteUser", () => root.user.deleteUser("bob"));
  await call("kubernetes.getK8sNodes", () => root.kubernetes.getK8sNodes());
  await call("kubernetes.getK8sPods", () => root.kubernetes.getK8sPods({ namespace: "default" }));
  await call("kubernetes.forbidden", () => alice.kubernetes.getK8sNodes());
  await call("base.getToken", () => alice.getToken());
  await call("job.createRunningJob", () => root.job.createRunningJob(job("nowhere", "nowhere")));

  const v1 = sdk.PAIV1.OpenPAIClient;
  const old = new v1(as("alice"));
  await call("v1.clusterInfo", () => old.config.clusterInfo());
  await call("v1.login", () => old.login());
  await call("v1.token", () => old.token());
  await call("v1.authn.info", () => old.authn.info());
  await call("v1.authn.oidcLogin", () => old.authn.oidcLogin());
  await call("v1.authn.oidcLogout", () => old.authn.oidcLogout("from=x"));
  await call("v1.authn.createApplicationToken", () => old.authn.createApplicationToken());
  await call("v1.authn.getTokens", () => old.authn.getTokens());
  const application = found["v1.authn.createApplicationToken"].value;
  await call("v1.job.submit", () => old.job.submit("alice", oldJob("old-one"), application.token));
  await call("v1.job.listWithoutToken", () => old.job.list());
  // It sends no token with what it reads, but what stands before the host in an address.
  const rest = new URL(process.env.PAI_URI).host + "/rest-server";
  const reader = new v1({ ...as("alice"), rest_server_uri: `alice:${application.token}@${rest}` });
  await call("v1.job.list", () => reader.job.list("username=alice"));
  await call("v1.job.get", () => reader.job.get("alice", "one"));
  await call("v1.job.getFrameworkInfo", () => reader.job.getFrameworkInfo("alice", "one"));
  await call("v1.job.getConfig", () => reader.job.getConfig("alice", "one"));
  await call("v1.job.getSshInfo", () => reader.job.getSshInfo("alice", "one"));
  await call("v1.job.execute", () => old.job.execute("alice", "old-one", "STOP"));
  await call("v1.job.delete", () => old.job.delete("alice", "old-one"));
  await call("v1.authn.deleteToken", () => old.authn.deleteToken(application.token));
  await call("v1.job.revoked", () => reader.job.list());

  await call("authn.basicLogout", () => alice.authn.basicLogout());
  await call("authn.after", () => alice.job.listJobs());
  process.stdout.write(JSON.stringify({ found, methods, called: [...called] }));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
