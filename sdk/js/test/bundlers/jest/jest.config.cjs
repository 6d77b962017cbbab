module.exports = { testMatch: ["<rootDir>/*.test.[cm]js"] };
