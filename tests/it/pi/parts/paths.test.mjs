// Paths as a model writes them, images by their content, and lines of a search.
import assert from "node:assert/strict";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

const source = (name) => import(pathToFileURL(`${process.env.EXTENSION}/src/${name}`).href);
const { placeOf, resolvePath } = await source("environment.ts");
const { carried } = await source("command.ts");

test("paths are the environment's", () => {
    const about = { cwd: "/there/project", home: "/there" };
    for (const [written, expected] of [
        ["a/b", "/there/project/a/b"],
        ["@a/b", "/there/project/a/b"],
        ["~", "/there"],
        ["~/x", "/there/x"],
        ["@~/x", "/there/x"],
        ["~x", "/there/project/~x"],
        ["/a/../b", "/b"],
        ["../../../..", "/"],
        [".", "/there/project"],
        ["file:///a%20b", "/a b"],
        ["a\u00a0b\u202fc", "/there/project/a b c"],
    ]) {
        assert.equal(resolvePath(written, about), expected, written);
    }
});

test("this machine is never meant", () => {
    delete process.env.TA_EXEC_URL;
    assert.throws(() => placeOf(() => undefined), /none is named/);
    assert.throws(() => placeOf(() => ""), /none is named/);
    assert.deepEqual(placeOf((name) => ({ "ta-via": "x y" })[name]), { options: ["--via", "x y"], cwd: undefined });
    process.env.TA_EXEC_URL = "ws://x/exec";
    assert.deepEqual(placeOf(() => undefined).options, []);
});

test("of the host's variables only pi's go there", () => {
    const given = { PATH: "/bin", HOME: "/x", PI_MODEL: "m", AI_AGENT: "pi", TOKEN: "t", API_PI_: "no", PI_NONE: undefined };
    assert.deepEqual(carried(given), { PI_MODEL: "m", AI_AGENT: "pi" });
});
